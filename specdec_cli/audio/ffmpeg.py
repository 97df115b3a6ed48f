"""A sound track that FFmpeg decodes (PyAV), on the clock of its file.

Packets that do not decode are skipped. If timestamps leave a gap, as after lost packets or with a muted microphone,
silence fills it; if they begin again, as in joined streams, the sound goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import FileIO
from itertools import chain
from typing import Any, Final

import numpy as np

from specdec_cli.audio.chunks import TAGS
from specdec_cli.audio.samples import BLOCK_SAMPLES, Floats, Source
from specdec_cli.regular_files import POSIX
from specdec_cli.times import parse

_FORMATS: Final = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,loas,matroska,mov,mp3,mpeg,mpegts,"
    "mpegvideo,ogg,oma,rm,sln,sox,spdif,tak,truehd,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_DECLARE_LENGTH: Final = ("aiff", "ape", "au", "caf", "flac", "mov", "mp3", "tta", "wv")  # the others: estimated
_HAVE_CLOCKS: Final = (  # the others: counted samples
    *("asf", "avi", "flac", "flv", "matroska", "mov", "mpeg", "mpegts", "ogg"),
)
_TAILS: Final = (*TAGS, b"<", bytes(4))  # beginnings of what may follow a stream of frames: tags, web pages, padding
_JITTER_S: Final = 0.1  # of timestamps; containers round them
_LONGEST_GAP_S: Final = 3600.0  # if no length is declared
_REPORTED_S: Final = 1.0  # shortest gap that is reported


def open_container(file: FileIO) -> Any:
    """The container in an open file. Raises PyAV's errors."""
    import av
    import av.logging

    av.logging.set_level(None)  # FFmpeg would write to stderr
    file.seek(0)
    options = {"protocol_whitelist": "fd", "format_whitelist": _FORMATS}
    options["probesize"] = str(1 << 18)  # FFmpeg's own 5 MB are seconds of work if a packet is a byte
    # A descriptor: PyAV prints errors of a Python reader, and cannot encode every name. Other protocols stay closed.
    options |= {"fd": str(file.fileno())} if POSIX else {}
    return av.open("fd:" if POSIX else file, mode="r", metadata_errors="replace", options=options)


def chosen_track(tracks: Any) -> int:
    """Number of the track that is marked as the default, or else of the first one; 1-based."""
    marked = (number for number, track in enumerate(tracks, 1) if int(track.disposition) & 1)  # AV_DISPOSITION_DEFAULT
    return next(marked, 1)


class FrameClock:
    """The sound of one track as a `source`, with the rate and channels of its first frame.

    The source's faults and notes are complete once all blocks were read.

    Raises LookupError if the track has no decoder, or no sound in any packet.
    """

    def __init__(self, container: Any, track: Any, size: int) -> None:
        self._container, self._track = container, track
        self._damaged = 0  # packets
        faults = list[str]()
        if getattr(track, "codec_context", None) is None:
            raise LookupError("no such decoder")  # some versions of PyAV would crash
        context, name = track.codec_context, container.format.name.partition(",")[0]
        if context.name == "flac":  # its frames have checksums; explode: a wrong one is an error
            context.options = {"err_detect": "crccheck+explode"}
        self._has_clock = name in _HAVE_CLOCKS
        self._shift = -(container.start_time or 0) / 1e6  # from timestamps to seconds after the start of the file
        self._last_s = _declared_s(container, track, size)
        if (first := next(frames := self._frames(faults), None)) is None:
            raise LookupError("no frame of sound")
        self._first, self._following = first, frames
        begins = self._time(first) or 0.0
        origin_s = begins if begins > _JITTER_S else 0.0
        self.source = Source(
            first.sample_rate, first.layout.nb_channels, self._blocks(), origin_s=origin_s, faults=faults
        )
        self.source.at = round(origin_s * first.sample_rate)
        self.source.declared_s = self._last_s
        if self._last_s is not None and name == "mov":  # it declares the length of the sound, not its end
            self.source.declared_s = self._last_s + origin_s
        steady = context.name.startswith("pcm_") and context.bit_rate
        self.source.longest_s = 8 * size / context.bit_rate if steady else self._last_s or 0.0

    def _blocks(self) -> Iterator[Floats]:
        for part in self._joined():
            yield part if isinstance(part, np.ndarray) else self._array(part)
        if self._damaged:
            self.source.faults.append(f"{self._damaged} of its packets do{'es' * (self._damaged == 1)} not decode")

    def _joined(self) -> Iterator[Any]:
        """Large frames, joined from small ones, and arrays of silence between them."""
        import av

        source, kind, resampler = self.source, None, None
        due_s, silent_s = source.origin_s, 0.0
        length = max(1, BLOCK_SAMPLES // source.channels)
        for frame in chain([self._first], self._following):
            alike = frame.format.name, frame.layout.name, frame.sample_rate
            gap_s = self._gap(frame, due_s)
            if (alike != kind or gap_s) and resampler is not None:
                yield from resampler.resample(None)
                resampler = None
            for begin in range(0, math.ceil(gap_s * source.rate), length):
                yield np.zeros((min(length, round(gap_s * source.rate) - begin), source.channels), np.float32)
            silent_s += gap_s
            kind = alike
            resampler = resampler or av.AudioResampler("flt", self._first.layout, source.rate, length)
            due_s += gap_s + frame.samples / frame.sample_rate
            frame.pts = None
            yield from resampler.resample(frame)
        if resampler is not None:
            yield from resampler.resample(None)
        if silent_s > _REPORTED_S:
            source.notes.append(f"holds no sound for {silent_s:.1f} s in between, where silence takes its place")

    def _array(self, frame: Any) -> Floats:
        return np.asarray(frame.to_ndarray(), np.float32).reshape(-1, self.source.channels)

    def _time(self, frame: Any) -> float | None:
        """When a frame begins, seconds from the start of the file; None without a clock."""
        if not self._has_clock or frame.time is None:
            return None
        return float(frame.time) + self._shift

    def _gap(self, frame: Any, due_s: float) -> float:
        """Seconds without sound before a frame that is due at `due_s`."""
        at = self._time(frame)
        if at is None or abs(at - due_s) <= _JITTER_S:
            return 0.0
        latest = due_s + _LONGEST_GAP_S if self._last_s is None else self.source.declared_s or 0.0
        if due_s < at <= latest + _REPORTED_S:
            return at - due_s
        if at > due_s:
            leap = f"has timestamps that leap by {at - due_s:,.0f} s after {due_s:.1f} s: they do not count"
            self.source.notes.append(leap)
        self._shift += due_s - at  # the clock begins again
        return 0.0

    def _frames(self, faults: list[str]) -> Iterator[Any]:
        import av

        packets = self._container.demux(self._track)
        in_tail = False
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError:
                faults.append("it cannot be read to its end")
                packet = None
            try:
                decoded = self._track.codec_context.decode(packet) if packet is None else packet.decode()
            except av.error.EOFError:
                decoded = []
            except (av.error.FFmpegError, ValueError):
                in_tail = in_tail or (not self._has_clock and bytes(packet or b"").startswith(_TAILS))
                self._damaged += not in_tail
                decoded = []
            for frame in decoded:
                if getattr(frame, "samples", 0) and frame.sample_rate:
                    in_tail = False
                    yield frame
            if packet is None:
                return


def _declared_s(container: Any, track: Any, size: int) -> float | None:
    """The end of the sound track, seconds, as the header declares it; None if FFmpeg only estimates it."""
    tag = track.metadata.get("DURATION", "")
    if tag.count(":") == 2 and (tagged := parse(tag)) is not None:  # of Matroska; others write milliseconds
        return tagged
    name = container.format.name.partition(",")[0]
    if track.duration is None or track.time_base is None or name not in _DECLARE_LENGTH:
        return None
    length_s = float(track.duration * track.time_base)
    if name == "mp3" and (track.codec_context.bit_rate or 0) * length_s / 8 <= size:
        return None  # estimated from the size; a Xing tag declares both the duration and the bytes
    return length_s
