"""A sound track that FFmpeg decodes (PyAV), on the clock of its file.

Packets that do not decode are skipped. If timestamps leave a gap, as after lost packets or with a muted microphone,
silence fills it; if they begin again, as in joined streams, the sound goes on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specdec_cli.audio.samples import CHUNK_SAMPLES, MISSING_S, STREAMED, Floats, OpenedFile
from specdec_cli.regular_files import POSIX, read_at
from specdec_cli.times import parse

_JITTER_S: Final = 0.1  # of timestamps; containers round them
_LONGEST_GAP_S: Final = 3600.0  # if no length is declared
_MOST_PROBED: Final = 1 << 18  # bytes; FFmpeg's own 5 MB are seconds of work if a packet is a byte
_PADDING: Final = 1 << 16  # bytes of zeros; fewer may be a pause
_ENCRYPTED: Final = "the track is encrypted"


def open_container(file: FileIO) -> Any:
    """The container in an open file. Raises PyAV's errors."""
    import av
    import av.logging

    av.logging.set_level(None)  # FFmpeg would write to stderr
    file.seek(0)
    # playlists may name other files and addresses: no protocol but that of the open file is allowed
    options = {"protocol_whitelist": "fd", "probesize": str(_MOST_PROBED)}
    # a descriptor: PyAV prints errors of a Python reader, and cannot encode every name
    options |= {"fd": str(file.fileno())} if POSIX else {}
    return av.open("fd:" if POSIX else file, mode="r", metadata_errors="replace", options=options)


def chosen_track(tracks: Any) -> int:
    """Number of the track that is marked as the default, or else of the first one; 1-based."""
    marked = (number for number, track in enumerate(tracks, 1) if int(track.disposition) & 1)  # AV_DISPOSITION_DEFAULT
    return next(marked, 1)


class FrameClock:
    """The sound of one track as a `source`, with the rate and channels of its first frame.

    The source's faults and notes are complete once all chunks were read.

    Raises:
        LookupError: the track has no decoder, or no sound in any packet.
        PermissionError: the track is encrypted.
    """

    def __init__(self, container: Any, track: Any, file: FileIO) -> None:
        self._container, self._track, self._file = container, track, file
        self._size = os.fstat(file.fileno()).st_size
        self._damaged = 0  # packets that do not decode, with sound behind them
        self._decoded = self._failed = 0  # bytes of the packets that decode, and of those behind the last frame
        self._end = 0  # byte of the file behind the last packet that decodes
        if getattr(track, "codec_context", None) is None:
            raise LookupError("no such decoder")  # some versions of PyAV would crash
        self._codec = track.codec_context
        if self._codec.name == "flac":  # its frames have checksums; explode: a wrong one is an error
            self._codec.options = {"err_detect": "crccheck+explode"}
        # bytes per second of samples that are not compressed, by the header; 0 for other codecs
        self._steady = (self._codec.bit_rate or 0) / 8 if self._codec.name.startswith("pcm_") else 0.0
        self._alone = len(container.streams) == 1
        self._due_s = 0.0  # when the next frame is due
        self._shift = -(container.start_time or 0) / 1e6  # from timestamps to seconds after the start of the file
        faults = list[str]()
        if (first := next(frames := self._frames(faults), None)) is None:
            raise PermissionError(_ENCRYPTED) if _has_drm(self._codec) else LookupError("no frame of sound")
        self._first, self._following = first, frames
        begins = self._time(first) or 0.0
        origin_s = begins if begins > _JITTER_S else 0.0
        names = [channel.name for channel in first.layout.channels]
        self.source = OpenedFile(first.sample_rate, len(names), self._chunks(), origin_s=origin_s, faults=faults)
        self._due_s = origin_s
        self.source.at = round(origin_s * first.sample_rate)
        self.source.low = frozenset(index for index, name in enumerate(names) if name.startswith("LFE"))
        self.source.declared_s = _declared_s(container, track, self._size)
        if self.source.declared_s is not None and container.format.name.startswith("mov"):
            self.source.declared_s += origin_s  # it declares the length of the sound, not its end
        self.source.longest_s = self._size / self._steady if self._steady else self.source.declared_s or 0.0
        self.source.after_s = self._after_s

    def _chunks(self) -> Iterator[Floats]:
        """Yields large chunks, joined from small frames."""
        parts, held, length = list[Floats](), 0, self._longest
        for part in self._parts():
            parts.append(part)
            held += len(part)
            if held >= length:
                yield np.concatenate(parts)
                parts, held = [], 0
        if parts:
            yield np.concatenate(parts)
        if self._damaged:
            self.source.faults.append(f"{self._damaged} of its packets do{'es' * (self._damaged == 1)} not decode")

    @property
    def _longest(self) -> int:
        """Samples of a channel in a chunk."""
        return max(1, CHUNK_SAMPLES // self.source.channels)

    def _parts(self) -> Iterator[Floats]:
        """Yields frames with the source's rate and number of channels, and silence between them."""
        source, silent_s, converter = self.source, 0.0, _Converter(self._first)
        for frame in chain([self._first], self._following):
            gap_s = self._gap(frame)
            if gap_s:
                yield from converter.flush()
            for begin in range(0, math.ceil(gap_s * source.rate), self._longest):
                yield np.zeros((min(self._longest, round(gap_s * source.rate) - begin), source.channels), np.float32)
            silent_s += gap_s
            self._due_s += gap_s + frame.samples / frame.sample_rate
            yield from converter.convert(frame)
        yield from converter.flush()
        if silent_s > MISSING_S:
            source.notes.append(f"holds no sound for {silent_s:.1f} s in between, where silence takes its place")

    def _time(self, frame: Any) -> float | None:
        """When a frame begins, seconds from the start of the file; None without a timestamp."""
        return None if frame.time is None else float(frame.time) + self._shift

    def _gap(self, frame: Any) -> float:
        """Seconds without sound before a frame."""
        at, due_s = self._time(frame), self._due_s
        if at is None or abs(at - due_s) <= _JITTER_S:
            return 0.0
        latest = self.source.declared_s or due_s + _LONGEST_GAP_S
        if due_s < at <= latest + MISSING_S:
            return at - due_s
        if at > due_s:
            leap = f"has timestamps that leap by {at - due_s:,.0f} s after {due_s:.1f} s: they are ignored"
            self.source.notes.append(leap)
        self._shift += due_s - at  # the clock begins again
        return 0.0

    def _frames(self, faults: list[str]) -> Iterator[Any]:
        import av

        packets, failed = self._container.demux(self._track), 0
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError as error:
                if self._rest_s() > MISSING_S:
                    faults.append(f"what follows {self._due_s:.1f} s cannot be read ({error.strerror})")
                packet = None
            if packet is not None and packet.has_sidedata("encryption_info"):
                raise PermissionError(_ENCRYPTED)
            try:
                decoded = self._codec.decode(packet) if packet is None else packet.decode()
            except av.error.EOFError:
                decoded = []
            except (av.error.FFmpegError, ValueError):
                failed += 1
                self._failed += packet.size if packet is not None and any(bytes(packet)) else 0  # zeros are padding
                decoded = []
            for frame in decoded:
                if getattr(frame, "samples", 0) and frame.sample_rate:
                    self._damaged += failed
                    failed = self._failed = 0
                    yield frame
            if packet is None:
                return
            if decoded:
                self._decoded += packet.size
                self._end = (packet.pos or 0) + packet.size

    def _after_s(self, decoded_s: float) -> float:
        """Seconds of sound that may follow: samples that the header leaves out, or packets that do not decode."""
        if self._steady and self._alone:
            return self._rest_s()
        return self._failed * decoded_s / max(1, self._decoded)

    def _rest_s(self) -> float:
        """Length of sound for which the file has room behind the last packet; 0 before tags, chunks and padding."""
        rest, start = self._size - self._end, read_at(self._file, _PADDING, self._end)
        name, sizes = start[:4], (int.from_bytes(start[4:8], order) for order in ("little", "big"))
        is_chunk = _is_text(name) and name not in (b"data", b"RIFF", b"FORM") and any(each <= rest for each in sizes)
        if is_chunk or _is_text(start[:8]) or not any(start):
            return 0.0
        return rest / self._steady if self._steady else rest * self._due_s / max(1, self._decoded)


class _Converter:
    """Converts frames to arrays [n, channels] of full scale 1.0, with rate and number of channels of the first one."""

    def __init__(self, first: Any) -> None:
        self._first, self._channels = first, first.layout.nb_channels
        self._kind: object = None  # of the frames that are resampled
        self._resampler: Any = None

    def convert(self, frame: Any) -> Iterator[Floats]:
        """Yields the samples of a frame, at once or with later ones."""
        import av

        kind = frame.format.name, frame.layout.name, frame.sample_rate
        if kind != self._kind:
            yield from self.flush()
        if (frame.sample_rate, frame.layout.nb_channels) == (self._first.sample_rate, self._channels):
            yield self._array(frame)
            return
        if self._resampler is None:
            self._resampler, self._kind = av.AudioResampler("flt", self._first.layout, self._first.sample_rate), kind
        frame.pts = None
        yield from map(self._array, self._resampler.resample(frame))

    def flush(self) -> Iterator[Floats]:
        """Yields what is left of frames that were resampled."""
        if self._resampler is not None:
            yield from map(self._array, self._resampler.resample(None))
            self._resampler = None

    def _array(self, frame: Any) -> Floats:
        stored: npt.NDArray[Any] = frame.to_ndarray()
        samples = stored.T if frame.format.is_planar else stored.reshape(-1, self._channels)
        if samples.dtype.kind == "f":
            return samples.astype(np.float32, copy=False)
        full_scale = np.float32(2.0 ** (8 * samples.dtype.itemsize - 1))
        return samples.astype(np.float32) / full_scale - np.float32(samples.dtype.kind == "u")


def _is_text(start: bytes) -> bool:
    return start.isascii() and start.decode().isprintable()


def _has_drm(codec: Any) -> bool:
    """Whether an MP4 calls the samples of a track encrypted."""
    try:
        return codec.codec_tag in ("drms", "enca")
    except UnicodeDecodeError:
        return False


def _declared_s(container: Any, track: Any, size: int) -> float | None:
    """The end of the sound, seconds, by the header; None if FFmpeg estimates it, from the file's size."""
    tag = track.metadata.get("DURATION", "")
    if tag.count(":") == 2 and (tagged := parse(tag)) is not None:  # of Matroska; others write milliseconds
        return tagged
    if track.duration is None or track.time_base is None:
        return container.duration / 1e6 if container.duration and len(container.streams) == 1 else None
    length_s, rate = float(track.duration * track.time_base), track.codec_context.bit_rate
    return length_s if not rate or size < length_s * rate / 8 < STREAMED else None
