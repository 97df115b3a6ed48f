"""From a path to a recording that a model can read, in pieces that fit its window, or a typed refusal."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO

import numpy as np

from specdec_cli.audio.decode import Sound, open_sound
from specdec_cli.audio.files import opened, refusal, sha256
from specdec_cli.audio.samples import (
    MAX_DURATION_S,
    MIN_DURATION_S,
    SILENCE_DBFS,
    Floats,
    SampleStatistics,
    Segment,
)
from specdec_cli.errors import AudioContentError, AudioDecodeError, ConfigError

_LONG_S = 300.0
_ONE_LONG = threading.Lock()  # of many threads, one at a time holds more than so much of a recording while it decodes
_ROUNDING = 1e-6  # samples: 0.1 * 16000 must not lose one


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording that was decoded once and found fit to caption."""

    path: str  # as it was given
    sampling_rate: int  # of the samples of its pieces, Hz
    duration_s: float  # of the original
    sha256: str  # hex digest of the file's bytes
    original_rate: int  # of the file, Hz
    channels: int  # of the file
    count: int  # of pieces
    level_dbfs: float | None  # of its active frames, see `SampleStatistics.level_dbfs`
    decode_s: float  # from opening the file to the checked samples
    _samples: Floats | None = field(repr=False)  # if they fit the window
    _channel: int | None = field(repr=False)  # the one to use where the mean over the channels loses the sound
    _stamp: tuple[int, ...] = field(repr=False)

    def pieces(self) -> Iterator[Segment]:
        """The pieces that the model reads one at a time, in order and without gaps, all equally long (to a sample).

        A recording that is longer than the window is decoded again while the pieces are read, so that only one of them
        is in memory.

        Raises:
            AudioError: the file is gone, or has changed since it was opened.
        """
        blocks = self._decoded_again() if self._samples is None else iter((self._samples,))
        total, rest = round(self.duration_s * self.sampling_rate), np.zeros(0, np.float32)
        for index in range(self.count):
            start, end = total * index // self.count, total * (index + 1) // self.count
            samples, filled = np.zeros(end - start, np.float32), 0
            while (missing := end - start - filled) > 0:
                if not len(rest):  # the resampler may return a sample less
                    rest = next(blocks, np.zeros(missing, np.float32))
                taken, rest = rest[:missing], rest[missing:]
                samples[filled : filled + len(taken)] = taken
                filled += len(taken)
            statistics = SampleStatistics(self.sampling_rate)
            statistics.add(samples)
            silent = self.count > 1 and statistics.loudest_frame_dbfs() < SILENCE_DBFS
            yield Segment(samples, start / self.sampling_rate, end / self.sampling_rate, silent)

    def _decoded_again(self) -> Iterator[Floats]:
        with opened(self.path) as (file, _):
            if _stamp(file) != self._stamp:
                hint = "Caption it again when it is complete."
                raise refusal(AudioDecodeError, self.path, "has changed since it was opened", hint)
            with open_sound(self.path, file) as sound:
                yield from _Mixdown(sound, self.sampling_rate, self._channel)


def open_recording(
    path: str | os.PathLike[str], sampling_rate: int = 16000, *, window_s: float, segment_s: float | None = None
) -> Recording:
    """Decode a recording, mix it down to mono (mean over the channels), resample it, check it and cut it.

    When the mean loses the sound because channels are in antiphase, the loudest channel is taken instead. The number of
    pieces is the smallest that keeps each within `segment_s`; so there is no tail too short to describe.

    Args:
        path: anything that libsndfile or FFmpeg reads; of a video, the first sound track.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds.
        segment_s: longest piece, seconds; None to refuse what is longer than the window.

    Raises:
        AudioNotFoundError: no such file, not a regular file, or it may not be read.
        AudioDecodeError: empty, not audio, cut short, damaged, or of an unknown codec.
        AudioContentError: too short, too long, silent, or with samples that are not finite.
        ConfigError: `segment_s` is longer than the window or shorter than 0.1 s, or `sampling_rate` is not positive.
    """
    if segment_s is not None and not MIN_DURATION_S <= segment_s <= window_s:
        too_long = window_s < segment_s < math.inf
        fault = f"longer than the {window_s:g} s that the model reads at once" if too_long else "too short to describe"
        hint = f"Give a length between {MIN_DURATION_S} and {window_s:g} seconds."
        raise ConfigError(f"A segment of {segment_s:g} s is {fault}.", hint=hint)
    return _open(os.fsdecode(path), sampling_rate, MAX_DURATION_S, window_s, segment_s)


def load_audio(
    path: str | os.PathLike[str], sampling_rate: int = 16000, *, longest_s: float = MAX_DURATION_S
) -> tuple[Floats, Recording]:
    """A whole recording in memory: its samples, float32 mono [n] at `sampling_rate`, and what describes them.

    Args:
        path, sampling_rate: as for `open_recording`.
        longest_s: a longer recording is refused, seconds.

    Raises:
        AudioError: as `open_recording`.
    """
    recording = _open(os.fsdecode(path), sampling_rate, longest_s, math.inf, None)
    assert recording._samples is not None  # any length fits
    return recording._samples, recording


def _open(path: str, sampling_rate: int, longest_s: float, window_s: float, segment_s: float | None) -> Recording:
    if sampling_rate < 1:
        raise ConfigError(f"A sampling rate of {sampling_rate} Hz is not possible.", hint="Give the model's rate.")
    begun = time.perf_counter()
    with opened(path) as (file, _):
        channel = None
        while True:
            with open_sound(path, file) as sound:
                mixdown = _Mixdown(sound, sampling_rate, channel)
                statistics, samples = _decode(path, mixdown, longest_s, window_s, whole=segment_s is None)
            if (channel := mixdown.cancelled()) is None:
                break
        statistics.require_content(path, mixdown.duration_s)
        longest = math.inf if segment_s is None else math.floor(segment_s * sampling_rate + _ROUNDING)
        return Recording(
            path=path,
            sampling_rate=sampling_rate,
            duration_s=mixdown.duration_s,
            sha256=sha256(file),
            original_rate=sound.sampling_rate,
            channels=sound.channels,
            count=max(1, math.ceil(mixdown.length / longest)),
            level_dbfs=statistics.level_dbfs(),
            decode_s=time.perf_counter() - begun,
            _samples=samples,
            _channel=mixdown.channel,
            _stamp=_stamp(file),
        )


def _decode(
    path: str, mixdown: _Mixdown, longest_s: float, window_s: float, *, whole: bool
) -> tuple[SampleStatistics, Floats | None]:
    """One pass over a recording, which keeps the samples if they fit the window."""
    declared_s = mixdown.sound.declared_s
    _require_at_most(longest_s, path, declared_s or 0.0)
    statistics, alone = SampleStatistics(mixdown.sampling_rate), False
    declared_fits = whole or (declared_s or 0.0) <= window_s
    fits, kept = declared_fits, list[Floats]()
    with ExitStack() as stack:
        for block in mixdown:
            _require_at_most(longest_s, path, mixdown.duration_s)
            fits = declared_fits and mixdown.length <= window_s * mixdown.sampling_rate + _ROUNDING
            if whole and not fits:
                length = f"more than {window_s:g} s" if declared_s is None else f"{declared_s:.2f} s"
                says = f"lasts {length}, but the model reads {window_s:g} s at once"
                hint = f"Caption it piece by piece: set audio.segment_s to {window_s:g} seconds or less."
                raise refusal(AudioContentError, path, says, hint)
            if fits and not alone and mixdown.duration_s > _LONG_S:
                alone = bool(stack.enter_context(_ONE_LONG))
            statistics.add(block)
            if fits:
                kept.append(block)
            else:
                kept.clear()
        kept.append(np.zeros(1, np.float32))  # the resampler may return a sample less
        return statistics, np.concatenate(kept)[: mixdown.length] if fits else None


class _Mixdown:
    """Iterates over a recording as blocks of mono samples, float32 [n], at `sampling_rate` (soxr, high quality).

    They are the mean over the channels, or `channel` alone.
    """

    def __init__(self, sound: Sound, sampling_rate: int, channel: int | None = None) -> None:
        self.sound, self.sampling_rate, self.channel = sound, sampling_rate, channel
        self._frames = 0  # samples per channel so far, at the recording's rate
        self._powers = np.zeros(sound.channels + 1)  # of the mean over the channels, and of each channel

    def __iter__(self) -> Iterator[Floats]:
        resampler = None
        if self.sound.sampling_rate != self.sampling_rate:
            import soxr

            resampler = soxr.ResampleStream(self.sound.sampling_rate, self.sampling_rate, 1, "float32", "HQ")
        for block in self.sound.blocks:
            self._frames += len(block)
            mono = self._mixed(block)
            yield mono if resampler is None else resampler.resample_chunk(mono)
        if resampler is not None and self._frames:
            yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)

    @property
    def duration_s(self) -> float:
        """Length of what was decoded so far, seconds."""
        return self._frames / self.sound.sampling_rate

    @property
    def length(self) -> int:
        """Samples that it amounts to; the resampler's own count may differ by one."""
        return round(self.duration_s * self.sampling_rate)

    def cancelled(self) -> int | None:
        """The loudest channel if the mean is 20 dB below what that channel alone would leave in it (antiphase)."""
        mixed, *channels = np.sqrt(self._powers).tolist()
        loudest = max(channels)
        return channels.index(loudest) if mixed < 0.1 * loudest / len(channels) else None

    def _mixed(self, block: Floats) -> Floats:
        if self.sound.channels == 1 or self.channel is not None:
            return np.ascontiguousarray(block[:, self.channel or 0])
        with np.errstate(all="ignore"):  # NaN and inf are refused later
            mean: Floats = block.mean(axis=1, dtype=np.float32)
            self._powers += len(block) * np.column_stack([mean, block]).var(axis=0, dtype=np.float64)
        return mean


def _require_at_most(longest_s: float, path: str, seconds: float) -> None:
    if seconds > longest_s:
        length, most = (f"{s:g} s" if s < 3600 else f"{s / 3600:,.1f} h" for s in (seconds, longest_s))
        says = f"is too long: it lasts {length} or more, and {most} is the most"
        hint = "Cut it into shorter recordings. If it is short, mend its header with: {convert}"
        raise refusal(AudioContentError, path, says, hint)


def _stamp(file: FileIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
