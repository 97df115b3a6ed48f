"""Opens a recording with libsndfile or, where that does not read the format, with FFmpeg (PyAV).

The bytes decide, never the name of the file. What was decoded is compared with the length that the header declares, so
that a file that was cut short is refused instead of captioned in part. MP3 always goes to FFmpeg: libsndfile's decoder
writes to stderr. FFmpeg is limited to a list of formats: it would also "play" images, plain text, and playlists that
name other files or web addresses.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, Any

import numpy as np

from specdec_cli.audio.checks import Floats
from specdec_cli.audio.files import convert_command, shown
from specdec_cli.errors import AudioDecodeError

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

MIN_RATE, MAX_RATE = 1_000, 768_000
"""Plausible sampling rates, Hz. Anything else is a damaged header."""

_BLOCK_SAMPLES = 1 << 18
_LFS_POINTER = b"version https://git-lfs.github.com"
_NOT_AUDIO = {
    "an image": (b"\x89PNG", b"\xff\xd8\xff", b"GIF8"),
    "a PDF document": (b"%PDF",),
    "an archive or an office document": (b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c"),
}
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a]")  # every header of a recording holds such bytes, and no text does

_MALFORMED = 3
_UNKNOWN_FRAMES = 1 << 62  # libsndfile's count for FLAC and Ogg of unknown length is 2**63 - 1
_OPENING = threading.Lock()  # the error code of a file that libsndfile does not open is shared by all threads
_SHORTENED = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
"""In libsndfile's log: the size that a WAV, AIFF, AU, CAF, W64 or RF64 declares, and what the file has room for."""
_STREAMED = 0x7FFFF000  # writers into a pipe declare 0, 0x7fffffff less a header, 0x80000000 or 0xffffffff bytes
_OGG_HEADER, _OGG_PAGE = 27, 27 + 255 + 255 * 255

_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,loas,matroska,mov,mp3,mpeg,mpegts,"
    "mpegvideo,ogg,oma,rm,sln,sox,spdif,tak,truehd,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_DECLARE_LENGTH = ("aiff", "ape", "au", "caf", "flac", "mov", "mp3", "tta", "wv")  # FFmpeg estimates it for the others
_PROBE_BYTES = 1 << 18  # FFmpeg's own 5 MB are seconds of work where a packet is a byte
_TOLERANCE_S = 0.1  # containers round, and may count the padding of the encoder
_LEAST_FRAME, _FEW_PACKETS = 16, 10_000


class _Refused(Exception):
    """Not decodable; `reason` completes "clip.wav ...", and `hint` may hold "{convert}" for a command."""

    def __init__(self, reason: str, hint: str = "Copy or record it again. To keep what is there: {convert}") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class _NotThisDecoder(_Refused):
    """The decoder does not know the format or the codec; another one may."""

    def __init__(self, reason: str) -> None:
        hint = "If it is a recording, copy it again, or convert it with: {convert}"
        super().__init__(f"cannot be decoded: {reason}", hint)


@dataclass(frozen=True, slots=True)
class Sound:
    """An open recording.

    Attributes:
        sampling_rate: Hz.
        channels: of the first block; a stream may change it.
        declared_s: length that the header declares, seconds, or None.
        blocks: float32 [frames, channels], full scale 1.0; iterate inside `open_sound` only.
    """

    sampling_rate: int
    channels: int
    declared_s: float | None
    blocks: Iterator[Floats]


@contextmanager
def open_sound(path: str, file: FileIO) -> Iterator[Sound]:
    """Open the sound of a file, for one pass over its blocks.

    Raises:
        AudioDecodeError: on opening or from the blocks: not audio, cut short, damaged, or of an unknown codec.
    """
    try:
        with ExitStack() as stack:
            yield _opened(file, stack)
    except _Refused as error:
        hint = error.hint.format(convert=convert_command(path))
        raise AudioDecodeError(f"{shown(path)} {error.reason}.", hint=hint) from error


def _opened(file: FileIO, stack: ExitStack) -> Sound:
    head = _read(file, 0, 4096)
    _refuse_what_is_no_audio(head)
    _refuse_what_ends_early(file, head)
    if head.startswith(b"ID3"):  # an MP3, or a FLAC behind an MP3's tag
        length = sum((byte & 127) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=False))
        head = _read(file, 10 + length, 4)
        for_sndfile = head == b"fLaC"
    else:
        for_sndfile = not head.startswith(b"\xff")
    if for_sndfile:
        try:
            return _sndfile(file, stack)
        except _NotThisDecoder:
            pass
    return _ffmpeg(file, stack)


def _read(file: FileIO, start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)


def _refuse_what_is_no_audio(head: bytes) -> None:
    if head.startswith(_LFS_POINTER):
        raise _Refused("is a Git LFS pointer: the recording itself was not downloaded", "Fetch it with: git lfs pull")
    kind = None if _BINARY.search(head) else "text"
    kind = next((kind for kind, magic in _NOT_AUDIO.items() if head.startswith(magic)), kind)
    if kind:
        raise _Refused(f"is not audio: it looks like {kind}", "Name a recording such as .wav, .flac, .mp3 or .m4a.")


def _refuse_what_ends_early(file: FileIO, head: bytes) -> None:
    """Two formats in which the decoders do not report a cut: AVI by its size, Ogg by its last page.

    An Ogg that ends exactly between two pages looks like a stopped live stream, which is complete.
    """
    size = file.seek(0, 2)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        _require_bytes(8 + int.from_bytes(head[4:8], "little"), size)
    if head.startswith(b"OggS"):
        tail = _read(file, max(0, size - _OGG_PAGE), _OGG_PAGE)
        page = tail[max(0, tail.rfind(b"OggS")) :]
        body = _OGG_HEADER + (page[_OGG_HEADER - 1] if len(page) >= _OGG_HEADER else 0)
        if page.startswith(b"OggS"):  # else something other than sound follows
            _require_bytes(body + sum(page[_OGG_HEADER:body]), len(page))


def _require_bytes(declared: int, present: int) -> None:
    missing = declared - present
    if missing > 0 and declared < _STREAMED:
        more = f"{missing:,} more {'byte' if missing == 1 else 'bytes'}"
        raise _Refused(f"is cut short: its header promises {more} than the file holds")


def _require_length(declared_s: float, decoded_s: float, tolerance_s: float = 0.0) -> None:
    if decoded_s < declared_s - tolerance_s:
        raise _Refused(f"is cut short: its header promises {declared_s:.1f} s, but it ends after {decoded_s:.1f} s")


def _require_plausible(sampling_rate: int) -> None:
    if not MIN_RATE <= sampling_rate <= MAX_RATE:
        raise _Refused(f"cannot be decoded: its header claims a sampling rate of {sampling_rate:,} Hz")


def _sndfile(file: FileIO, stack: ExitStack) -> Sound:
    """WAV, FLAC, Ogg, AIFF, AU, CAF and many old formats.

    The file is passed as a descriptor: soundfile would guess from the name (`x.raw` raises), and an error inside a
    Python reader would be printed by the C layer.
    """
    import soundfile

    file.seek(0)
    try:
        with _OPENING:
            sound = stack.enter_context(soundfile.SoundFile(file.fileno(), closefd=False))
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        if getattr(error, "code", None) == _MALFORMED:
            raise _Refused("cannot be decoded: it is damaged or cut short") from error
        raise _NotThisDecoder("its format is not known") from error
    _require_plausible(sound.samplerate)
    if shortened := _SHORTENED.search(sound.extra_info):
        _require_bytes(int(shortened[1]), int(shortened[2]))
    if sound.frames == 0 or sound.frames > _UNKNOWN_FRAMES:  # 0: also a streamed WAV, which FFmpeg reads on
        raise _NotThisDecoder("its length is not known in advance")
    return Sound(sound.samplerate, sound.channels, sound.frames / sound.samplerate, _sndfile_blocks(sound))


def _sndfile_blocks(sound: Any) -> Iterator[Floats]:
    import soundfile

    size, done = max(1, _BLOCK_SAMPLES // sound.channels), 0
    while done < sound.frames:
        try:
            block: Floats = sound.read(min(size, sound.frames - done), dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
            where = f", at {done / sound.samplerate:.1f} s or later" if done else ""
            raise _Refused(f"cannot be decoded: it is damaged or cut short{where}") from error
        if not len(block):
            _require_length(sound.frames / sound.samplerate, done / sound.samplerate)
        done += len(block)
        yield block


def _ffmpeg(file: FileIO, stack: ExitStack) -> Sound:
    """MP3, AAC, M4A, WebM, the sound of a video, and codecs that libsndfile lacks."""
    import av
    import av.logging

    av.logging.set_level(None)  # FFmpeg would write to stderr
    size = file.seek(0, 2)
    file.seek(0)
    options = {"format_whitelist": _FORMATS, "probesize": str(_PROBE_BYTES)}
    try:
        container = stack.enter_context(av.open(file, mode="r", metadata_errors="replace", options=options))
    except (av.FFmpegError, OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
        raise _NotThisDecoder("its format is not known, or it is cut short") from error
    if not container.streams.audio:
        raise _Refused("cannot be decoded: it has no sound track", "Name a recording, or a video that has sound.")
    stream = container.streams.audio[0]
    frames = _ffmpeg_frames(container, stream)
    first = next(frames, None)
    if first is None:
        raise _Refused("cannot be decoded: it holds no sound")
    _require_plausible(first.sample_rate)
    declared_s = _declared_s(container, stream, size)
    blocks = _ffmpeg_blocks(first, frames, declared_s)
    return Sound(first.sample_rate, first.layout.nb_channels, declared_s, blocks)


def _declared_s(container: InputContainer, stream: AudioStream, size: int) -> float | None:
    """Length of the sound track, seconds, where the header declares it; None where FFmpeg only estimates it."""
    name = container.format.name.partition(",")[0]
    if name == "matroska":
        if tag := re.fullmatch(r"(\d+):(\d+):(\d+\.\d+)", stream.metadata.get("DURATION", "")):
            return 3600 * int(tag[1]) + 60 * int(tag[2]) + float(tag[3])
        longest = container.duration  # of the tracks
        return None if longest is None or container.streams.video else longest / 1e6
    if stream.duration is None or stream.time_base is None or name not in _DECLARE_LENGTH:
        return None
    seconds = float(stream.duration * stream.time_base)
    if name == "mp3" and (stream.codec_context.bit_rate or 0) * seconds / 8 <= size:
        return None  # estimated from the size; a Xing tag declares both the duration and the bytes
    return seconds


def _ffmpeg_frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """The decoded frames of a sound track. PyAV raises many kinds of exceptions on hostile input."""
    import av

    if getattr(stream, "codec_context", None) is None:
        raise _NotThisDecoder("its codec is not known")
    samples = 0
    try:
        for packets, packet in enumerate(container.demux(stream)):
            for frame in packet.decode():
                if frame.samples:
                    samples += frame.samples
                    yield frame
            if packets > _FEW_PACKETS and samples < _LEAST_FRAME * packets:
                raise _Refused("cannot be decoded: its packets hold almost no sound")
    except av.DecoderNotFoundError as error:
        raise _NotThisDecoder("its codec is not known") from error
    except (av.FFmpegError, OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError) as error:
        raise _Refused("cannot be decoded: it is damaged or cut short") from error


def _ffmpeg_blocks(first: AudioFrame, frames: Iterator[AudioFrame], declared_s: float | None) -> Iterator[Floats]:
    """Frames, which may hold a few samples only, joined to blocks."""
    rate, done = first.sample_rate, first.samples
    held, size = [_floats(first)], 0
    for frame in frames:
        if frame.sample_rate != rate:
            change = f"from {rate:,} to {frame.sample_rate:,} Hz"
            raise _Refused(f"cannot be decoded: its sampling rate changes part-way, {change}")
        block = _floats(frame)
        if block.shape[1] != held[0].shape[1] or size >= _BLOCK_SAMPLES:
            yield np.concatenate(held)
            held, size = [], 0
        held.append(block)
        size, done = size + block.size, done + len(block)
    yield np.concatenate(held)
    if declared_s is not None:
        _require_length(declared_s, done / rate, _TOLERANCE_S)


def _floats(frame: AudioFrame) -> Floats:
    """float32 [frames, channels], full scale 1.0, from any sample format (24 bits come left-justified in 32)."""
    try:
        data = frame.to_ndarray()
    except (ValueError, RuntimeError) as error:
        raise _Refused(f"cannot be decoded: its sample format {frame.format.name} is not supported") from error
    block = data.T if frame.format.is_planar else data.reshape(-1, frame.layout.nb_channels)
    with np.errstate(all="ignore"):  # a float64 beyond float32 becomes inf, which is refused later
        floats: Floats = block.astype(np.float32)
    if block.dtype.kind == "u":
        return floats / np.float32(128) - np.float32(1)  # 8 bits are the only unsigned ones
    if block.dtype.kind == "i":
        return floats * np.float32(2.0 ** (1 - 8 * block.dtype.itemsize))
    return floats
