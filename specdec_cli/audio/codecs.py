"""Opens a recording with libsndfile or, where that does not read the format, with FFmpeg (PyAV).

The bytes decide, never the name of the file. What was decoded is compared with the length that the header declares, so
that a file that was cut short is refused instead of captioned in part; the decoders report none for some, as for AVI.
MP3 always goes to FFmpeg: libsndfile's decoder writes to stderr. FFmpeg is limited to a list of formats: it would also
"play" images, plain text, and playlists that name other files or web addresses.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from itertools import chain, count, groupby, takewhile
from typing import Any

import numpy as np

from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import Floats
from specdec_cli.errors import AudioDecodeError

_STREAMED = 0x7FFFF000  # writers into a pipe declare 0, 0x7fffffff less a header, 0x80000000 or 0xffffffff bytes

_BLOCK_SAMPLES = 1 << 18
_OPENING = threading.Lock()  # the error code of a file that libsndfile does not open is shared by all threads
_SHORTENED = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
"""In libsndfile's log: the size that a WAV, AIFF, AU, CAF, W64 or RF64 declares, and what the file has room for."""

_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,loas,matroska,mov,mp3,mpeg,mpegts,"
    "mpegvideo,ogg,oma,rm,sln,sox,spdif,tak,truehd,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_DECLARE_LENGTH = ("aiff", "ape", "au", "caf", "flac", "mov", "mp3", "tta", "wv")  # FFmpeg estimates it for the others


_HINT = "Copy or record it again. To keep what is there: ffmpeg -i FILE -ac 1 -ar 16000 converted.wav"


class _Undecodable(Exception):
    """Not decodable: why, to be said after the path."""


@dataclass(frozen=True, slots=True)
class Sound:
    """An open recording."""

    sampling_rate: int  # Hz
    declared_s: float | None  # length that the header declares
    blocks: Iterator[Floats]  # [frames, channels], full scale 1.0; iterate inside `open_sound` only


@contextmanager
def open_sound(path: str, file: FileIO, from_s: float = 0.0) -> Iterator[Sound]:
    """Open the sound of a file, for one pass over its blocks, of which the first begins at `from_s`, seconds.

    Raises AudioDecodeError on opening or from the blocks: not audio, cut short, damaged, or of an unknown codec.
    """
    try:
        with ExitStack() as stack:
            file.seek(0)
            if (head := file.read(4)) == b"OggS":
                _require_whole_page(file)
            sound = None if head.startswith((b"ID3", b"\xff")) else _sndfile(file, stack, from_s)
            yield sound or _ffmpeg(file, stack, from_s)
    except _Undecodable as error:
        raise audio_error(AudioDecodeError, path, str(error), _HINT) from error


def _require_whole_page(file: FileIO) -> None:
    """Refuses an Ogg whose last page is cut, which the decoders do not report.

    One that ends exactly between two pages looks like a stopped live stream, which is complete.
    """
    longest = 27 + 255 + 255 * 255
    file.seek(max(0, file.seek(0, 2) - longest))
    _, found, page = file.read(longest).rpartition(b"OggS")
    table_end = 23 + sum(page[22:23])
    if found:  # else something other than sound follows
        _require_bytes(table_end + sum(page[23:table_end]), len(page))


def _require_bytes(declared: int, present: int) -> None:
    if present < declared < _STREAMED:
        raise _Undecodable(f"is cut short: its header promises {declared - present:,} more bytes than the file holds")


def _sound(
    rate: int, declared_s: float | None, tolerance_s: float, blocks: Iterator[Floats], frames: int, from_s: float
) -> Sound:
    """What a decoder opened, `frames` in, from `from_s` on; an end before the declared length is refused."""
    if not 1_000 <= rate <= 768_000:
        raise _Undecodable(f"cannot be decoded: its header claims a sampling rate of {rate:,} Hz")

    def complete(frames: int) -> Iterator[Floats]:
        first = round(from_s * rate)
        try:
            for block in blocks:
                frames += len(block)
                if frames > first:
                    yield block[max(0, len(block) - (frames - first)) :]
        except Exception as error:  # PyAV raises many kinds
            if type(error) is MemoryError:  # of Python, not of FFmpeg over an absurd header
                raise
            at = f"{frames / rate:.1f} s or later"
            raise _Undecodable(f"cannot be decoded: it is damaged or cut short, at {at}") from error
        if declared_s is not None and frames / rate < declared_s - tolerance_s:
            ends = f"but it ends after {frames / rate:.1f} s"
            raise _Undecodable(f"is cut short: its header promises {declared_s:.1f} s, {ends}")

    return Sound(rate, declared_s, complete(frames))


def _sndfile(file: FileIO, stack: ExitStack, from_s: float) -> Sound | None:
    """WAV, FLAC, Ogg, AIFF, AU, CAF and many old formats; None for what libsndfile does not know."""
    import soundfile

    file.seek(0)  # a descriptor: soundfile guesses from names (`x.raw` raises), and C prints errors of a Python reader
    try:
        with _OPENING:
            sound = stack.enter_context(soundfile.SoundFile(file.fileno(), closefd=False))
    except soundfile.LibsndfileError as error:
        if error.code == 3:  # of a format that it knows
            raise _Undecodable("cannot be decoded: it is damaged or cut short") from error
        return None
    if shortened := _SHORTENED.search(sound.extra_info):
        _require_bytes(int(shortened[1]), int(shortened[2]))
    if not 0 < sound.frames < 1 << 62:  # a streamed WAV; FLAC and Ogg of unknown length
        return None
    rate, skipped = sound.samplerate, 0
    if from_s > 0 and sound.seekable():
        skipped = sound.seek(min(round(from_s * rate), sound.frames))
    size = max(1, _BLOCK_SAMPLES // sound.channels)
    blocks = takewhile(len, (sound.read(size, dtype="float32", always_2d=True) for _ in count()))
    return _sound(rate, sound.frames / rate, 0.0, blocks, skipped, from_s)


def _ffmpeg(file: FileIO, stack: ExitStack, from_s: float) -> Sound:
    """MP3, AAC, M4A, WebM, the sound of a video, and codecs that libsndfile lacks."""
    import av
    import av.logging

    av.logging.set_level(None)  # FFmpeg would write to stderr
    size = file.seek(0, 2)
    file.seek(0)
    # A descriptor: PyAV prints errors of a Python reader, and cannot encode every name. Other protocols stay closed.
    options = {"fd": str(file.fileno()), "protocol_whitelist": "fd", "format_whitelist": _FORMATS}
    options["probesize"] = str(1 << 18)  # FFmpeg's own 5 MB are seconds of work where a packet is a byte
    try:
        container = stack.enter_context(av.open("fd:", mode="r", metadata_errors="replace", options=options))
        stream = next(iter(container.streams.audio), None)
        frames = _frames(container, stream) if stream else iter(())
        first = next(frames, None)
    except Exception as error:
        reason = "cannot be decoded: its format or codec is not known, or it is damaged or cut short"
        raise _Undecodable(reason) from error
    if stream is None or first is None:
        raise _Undecodable("cannot be decoded: it holds no sound")
    channels = first.layout.nb_channels
    blocks = (np.asarray(frame.to_ndarray(), np.float32).reshape(-1, channels) for frame in chain([first], frames))
    # containers round, and may count the padding of the encoder
    return _sound(first.sample_rate, _declared_s(container, stream, size), 0.1, blocks, 0, from_s)


def _frames(container: Any, stream: Any) -> Iterator[Any]:
    """The sound track as packed floats, joined to large frames; a track may change its rate and its channels."""
    import av

    if getattr(stream, "codec_context", None) is None:
        raise LookupError("no such decoder")  # some versions of PyAV would crash
    decoded = (frame for packet in container.demux(stream) for frame in packet.decode() if frame.samples)
    first = next(decoded, None)
    if first is None:
        return
    size = max(1, _BLOCK_SAMPLES // first.layout.nb_channels)
    for _, alike in groupby(chain([first], decoded), lambda f: (f.format.name, f.layout.name, f.sample_rate)):
        resampler = av.AudioResampler("flt", first.layout, first.sample_rate, size)
        for frame in chain(alike, [None]):
            yield from resampler.resample(frame)


def _declared_s(container: Any, stream: Any, size: int) -> float | None:
    """Length of the sound track, seconds, where the header declares it; None where FFmpeg only estimates it."""
    tag = re.fullmatch(r"(\d{1,9}):(\d{1,2}):(\d{1,2}\.\d{1,9})", stream.metadata.get("DURATION", ""))  # of Matroska
    if tag is not None:
        return 3600 * int(tag[1]) + 60 * int(tag[2]) + float(tag[3])
    name = container.format.name.partition(",")[0]
    if stream.duration is None or stream.time_base is None or name not in _DECLARE_LENGTH:
        return None
    seconds = float(stream.duration * stream.time_base)
    if name == "mp3" and (stream.codec_context.bit_rate or 0) * seconds / 8 <= size:
        return None  # estimated from the size; a Xing tag declares both the duration and the bytes
    return seconds
