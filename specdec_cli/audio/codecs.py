"""Opens a recording with libsndfile or, where that does not read the format, with FFmpeg (PyAV).

The bytes decide, never the name of the file. What was decoded is compared with the length that the header declares, so
that a file that was cut short is refused instead of captioned in part; the decoders report none for some, as for AVI.
MP3 always goes to FFmpeg: libsndfile's decoder writes to stderr. FFmpeg is limited to a list of formats: it would also
"play" images, plain text, and playlists that name other files or web addresses.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from itertools import chain, count, groupby, takewhile
from typing import Any, Final

import numpy as np
import soxr

from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import MAX_DURATION_S, Floats
from specdec_cli.errors import AudioContentError, AudioDecodeError
from specdec_cli.times import MOST_S, seconds

_STREAMED: Final = 0x7FFFF000  # writers into a pipe declare 0, 0x7fffffff less a header, 0x80000000 or 0xffffffff bytes
_BLOCK_SAMPLES: Final = 1 << 18
_OPENING: Final = threading.Lock()  # all threads share the error code of a file that libsndfile does not open
_SHORTENED: Final = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
"""In libsndfile's log: the size that a WAV, AIFF, AU, CAF, W64 or RF64 declares, and what the file has room for."""

_FORMATS: Final = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,loas,matroska,mov,mp3,mpeg,mpegts,"
    "mpegvideo,ogg,oma,rm,sln,sox,spdif,tak,truehd,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_DECLARE_LENGTH: Final = ("aiff", "ape", "au", "caf", "flac", "mov", "mp3", "tta", "wv")  # the others: estimated


_Opened = tuple[int, float | None, float, Iterator[Floats], int]
"""What a library has opened: the fields of a `Sound` that concern the recording."""


@dataclass(slots=True)
class Sound:
    """A part of an open recording as mono samples, for one pass over it. Iterate it inside `open_sound` only."""

    path: str
    sampling_rate: int  # of the samples, Hz
    start_s: float  # of the part
    end_s: float
    _rate: int  # of the recording, Hz
    declared_s: float | None  # length that the header of the recording declares
    _tolerance_s: float  # of that length
    _blocks: Iterator[Floats]  # [frames, channels], full scale 1.0
    _at: int  # frames before the next block
    duration_s: float = 0.0  # of the part, as far as it was read

    @property
    def length(self) -> int:
        """Samples that what was read amounts to; the resampler's own count may differ by one."""
        return round(self.duration_s * self.sampling_rate)

    def __iter__(self) -> Iterator[Floats]:
        """Blocks, float32 [n]: the mean over the channels, resampled (soxr, high quality).

        Raises:
            AudioDecodeError: the recording is damaged, or ends before its header says so.
            AudioContentError: it is longer than six hours.
        """
        self._require_bounded(self.declared_s or 0.0)
        resampler = None
        if self._rate != self.sampling_rate:
            resampler = soxr.ResampleStream(self._rate, self.sampling_rate, 1, "float32", "HQ")
        first = round(self.start_s * self._rate)
        last = first + round((self.end_s - self.start_s) * self._rate)
        for block in self._decoded():
            inside = block[max(0, first - self._at) : max(0, last - self._at)]
            self._at += len(block)
            self.duration_s = max(0, min(self._at, last) - first) / self._rate
            self._require_bounded(self.start_s + self.duration_s)
            with np.errstate(all="ignore"):  # NaN and inf are refused later
                mixed = inside[:, 0] if inside.shape[1] == 1 else inside.mean(axis=1, dtype=np.float32)
            yield mixed if resampler is None else resampler.resample_chunk(mixed)
            if self._at >= last:
                break
        if resampler is not None and self.duration_s:
            yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)

    def _require_bounded(self, seconds: float) -> None:
        if seconds > MAX_DURATION_S:
            says = f"is too long: it lasts {seconds:,.0f} s or more, and {MAX_DURATION_S:,.0f} s is the most"
            hint = "Cut it into shorter recordings. If it is short, its header is wrong: convert it with ffmpeg."
            raise audio_error(AudioContentError, self.path, says, hint)

    def _decoded(self) -> Iterator[Floats]:
        try:
            yield from self._blocks
        except Exception as error:  # PyAV raises many kinds
            if type(error) is MemoryError:  # of Python, not of FFmpeg over an absurd header
                raise
            at = f"{self._at / self._rate:.1f} s or later"
            raise _refused(self.path, f"cannot be decoded: it is damaged or cut short at {at}") from error
        ended_s = self._at / self._rate
        if self.declared_s is not None and ended_s < self.declared_s - self._tolerance_s:
            raise _refused(self.path, f"is cut short: it ends after {ended_s:.1f} of {self.declared_s:.1f} s")


@contextmanager
def open_sound(
    path: str, file: FileIO, sampling_rate: int = 16000, start_s: float = 0.0, end_s: float = MOST_S
) -> Iterator[Sound]:
    """Open the sound of a file, or a part of it; AudioDecodeError: not audio, damaged, cut, or of an unknown codec."""
    with ExitStack() as stack:
        file.seek(0)
        if (head := file.read(4)) == b"OggS":
            _require_whole_page(path, file)
        is_mp3 = head.startswith((b"ID3", b"\xff"))
        found = (None if is_mp3 else _sndfile(path, file, stack, start_s)) or _ffmpeg(path, file, stack)
        if not 1_000 <= found[0] <= 768_000:
            raise _refused(path, f"cannot be decoded: its header claims a sampling rate of {found[0]:,} Hz")
        yield Sound(path, sampling_rate, start_s, end_s, *found)


def _refused(path: str, says: str) -> AudioDecodeError:
    hint = "Copy or record it again. To keep what is there: ffmpeg -i FILE -ac 1 -ar 16000 converted.wav"
    return audio_error(AudioDecodeError, path, says, hint)


def _require_whole_page(path: str, file: FileIO) -> None:
    """Refuses an Ogg whose last page is cut, which the decoders do not report.

    One that ends exactly between two pages looks like a stopped live stream, which is complete.
    """
    longest = 27 + 255 + 255 * 255
    file.seek(max(0, file.seek(0, os.SEEK_END) - longest))
    _, found, page = file.read(longest).rpartition(b"OggS")
    table_end = 23 + sum(page[22:23])
    if found:  # else something other than sound follows
        _require_bytes(path, table_end + sum(page[23:table_end]), len(page))


def _require_bytes(path: str, declared: int, present: int) -> None:
    if present < declared < _STREAMED:
        raise _refused(path, f"is cut short: its header promises {declared - present:,} more bytes than the file holds")


def _sndfile(path: str, file: FileIO, stack: ExitStack, from_s: float) -> _Opened | None:
    """WAV, FLAC, Ogg, AIFF, AU, CAF and many old formats; None for what libsndfile does not read."""
    import soundfile

    file.seek(0)  # a descriptor: soundfile guesses from names (`x.raw` raises), and C prints errors of a Python reader
    try:
        with _OPENING:
            sound = stack.enter_context(soundfile.SoundFile(file.fileno(), closefd=False))
    except soundfile.LibsndfileError as error:
        if error.code == 3:  # of a format that it knows
            raise _refused(path, "cannot be decoded: it is damaged or cut short") from error
        return None
    if shortened := _SHORTENED.search(sound.extra_info):
        _require_bytes(path, int(shortened[1]), int(shortened[2]))
    if not 0 < sound.frames < 1 << 62:  # a streamed WAV; FLAC and Ogg of unknown length
        return None
    skipped = 0
    if from_s > 0 and sound.seekable():
        skipped = sound.seek(min(round(from_s * sound.samplerate), sound.frames))
    size = max(1, _BLOCK_SAMPLES // sound.channels)
    # not sound.blocks(), which pads a file that ends early with what it read before
    blocks = takewhile(len, (sound.read(size, dtype="float32", always_2d=True) for _ in count()))
    return sound.samplerate, sound.frames / sound.samplerate, 0.0, blocks, skipped


def _ffmpeg(path: str, file: FileIO, stack: ExitStack) -> _Opened:
    """MP3, AAC, M4A, WebM, the sound of a video, and codecs that libsndfile lacks."""
    import av
    import av.logging

    av.logging.set_level(None)  # FFmpeg would write to stderr
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
        reason = "its format or codec is not known, or it is damaged or cut short"
        raise _refused(path, f"cannot be decoded: {reason}") from error
    if first is None:
        raise _refused(path, "cannot be decoded: it holds no sound")
    channels = first.layout.nb_channels
    blocks = (np.asarray(frame.to_ndarray(), np.float32).reshape(-1, channels) for frame in chain([first], frames))
    declared_s = _declared_s(container, stream, os.fstat(file.fileno()).st_size)
    return first.sample_rate, declared_s, 0.1, blocks, 0  # containers round, and may count the encoder's padding


def _frames(container: Any, stream: Any) -> Iterator[Any]:
    """The sound track as packed floats, joined to large frames; a track may change its rate and its channels."""
    import av

    if getattr(stream, "codec_context", None) is None:
        raise LookupError("no such decoder")  # some versions of PyAV would crash
    decoded = (frame for frame in container.decode(stream) if frame.samples)
    first = next(decoded)
    size = max(1, _BLOCK_SAMPLES // first.layout.nb_channels)
    for _, alike in groupby(chain([first], decoded), lambda f: (f.format.name, f.layout.name, f.sample_rate)):
        resampler = av.AudioResampler("flt", first.layout, first.sample_rate, size)
        for frame in chain(alike, [None]):
            yield from resampler.resample(frame)


def _declared_s(container: Any, stream: Any, size: int) -> float | None:
    """Length of the sound track, seconds, where the header declares it; None where FFmpeg only estimates it."""
    tag = stream.metadata.get("DURATION", "")
    if tag.count(":") == 2 and (tagged := seconds(tag)) is not None:  # of Matroska; others write milliseconds
        return tagged
    name = container.format.name.partition(",")[0]
    if stream.duration is None or stream.time_base is None or name not in _DECLARE_LENGTH:
        return None
    length_s = float(stream.duration * stream.time_base)
    if name == "mp3" and (stream.codec_context.bit_rate or 0) * length_s / 8 <= size:
        return None  # estimated from the size; a Xing tag declares both the duration and the bytes
    return length_s
