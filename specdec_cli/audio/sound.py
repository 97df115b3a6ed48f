"""A part of an open recording as samples at the models' rate: means of its channels, or single ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import soxr
from numpy.typing import NDArray

from specdec_cli.audio.decode import MisfitError, require_bounded
from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import Floats, OpenedFile
from specdec_cli.errors import AudioContentError, TooLongError

_INVERTED: Final = -0.9  # correlation of two channels
_CANCELLED: Final = 0.1  # power of the channels' mean, relative to that of independent channels
_AUDIBLE: Final = 1e-4  # power of a channel, relative to the loudest one's
_HISS: Final = 1e-3  # the same of a channel whose level hardly changes, as of an open microphone
_STEADY: Final = 2.0  # power of its loud windows, relative to the median
_WINDOW_S: Final = 0.1
_CLICK: Final = 3  # windows: a channel with fewer is silent
_FAINTEST: Final = 1e-7  # power of a channel, -70 dBFS
_QUIETER: Final = 0.01  # power of a channel, relative to the other's: it does not cancel the other
_SAME: Final = 0.9999  # correlation

Selection = int | None
"""A channel of a recording, 0-based, or None for the mix."""
Columns = Mapping[Selection, tuple[int, ...]]
"""Name of a column of samples -> the channels of the recording, 0-based, whose mean it is."""


class Excerpt(NamedTuple):
    """The part of a recording that is read."""

    sampling_rate: int  # of the result, Hz
    start_s: float
    end_s: float  # `MOST_S`: to the end of the recording
    track: int | None = None  # 1-based; None: the one marked as the default, or else the first
    longest_s: float = math.inf  # longest part that is accepted


class ExcerptSound:
    """A part of an open recording, for one pass over it.

    Attributes:
        start_s: start of the part, on the file's clock, or of the sound, if that is later.
        duration_s: length of the part, as far as it was read.
        ended_s: where reading ended, on the file's clock.
        exhausted: whether reading reached the end of the sound, not only of the part.
        levels: of the channels.
        columns: of the chunks.
    """

    def __init__(self, path: str, source: OpenedFile, part: Excerpt, columns: Columns) -> None:
        self.path, self.source, self.sampling_rate = path, source, part.sampling_rate
        self.start_s, self.end_s = max(part.start_s, source.origin_s), part.end_s
        self._longest_s = part.longest_s
        self.columns = dict(columns)
        self.duration_s, self.ended_s, self.exhausted = 0.0, 0.0, False
        self.levels = ChannelLevels(source)

    @property
    def length(self) -> int:
        """Samples of the part that was read; the resampler's own number may differ by one."""
        return round(self.duration_s * self.sampling_rate)

    def __iter__(self) -> Iterator[Floats]:
        """Yields chunks, float32 [n, columns], resampled (soxr, high quality).

        Damage ends the sound, or leaves out a part of it: see `OpenedFile.faults`.

        Raises TooLongError if the recording is longer than `MAX_DURATION_S`, or the part longer than `longest_s`; no
        more of it is decoded.
        """
        source, rate = self.source, self.source.rate
        require_bounded(self.path, source.longest_s)
        resamplers = [soxr.ResampleStream(rate, self.sampling_rate, 1, "float32", "HQ") for _ in self.columns]
        first = round(self.start_s * rate)
        last = first + max(0, round((self.end_s - self.start_s) * rate))
        for chunk in self._decoded():
            inside = chunk[max(0, first - source.at) : max(0, last - source.at)]
            source.at += len(chunk)
            self.duration_s = max(0, min(source.at, last) - first) / rate
            require_bounded(self.path, self.start_s + self.duration_s)
            if self.duration_s > self._longest_s:
                says = f"lasts longer than {self._longest_s:g} s, the most that is taken"
                raise audio_error(TooLongError, self.path, says, "Send it in parts.")
            self.levels.add(inside)
            columns = [_mean(inside, channels) for channels in self.columns.values()]
            if rate != self.sampling_rate:
                columns = [one.resample_chunk(column) for one, column in zip(resamplers, columns, strict=True)]
            yield np.stack(columns, axis=1)
            if source.at >= last:
                break
        else:
            self.exhausted = True
        self.ended_s = source.at / rate
        if rate != self.sampling_rate and self.duration_s:
            yield np.stack([one.resample_chunk(np.zeros(0, np.float32), last=True) for one in resamplers], axis=1)

    def missing(self) -> Iterator[str]:
        """Yields sentences on damage, and after a pass to the end on missing sound; see `OpenedFile.missing`."""
        return self.source.missing(self.ended_s if self.exhausted else None)

    def _decoded(self) -> Iterator[Floats]:
        try:
            yield from self.source.chunks
        except (AudioContentError, MemoryError, MisfitError):
            raise
        except Exception as error:  # PyAV raises many kinds
            at_s = self.source.at / self.source.rate
            self.source.faults.append(f"it cannot be decoded from {at_s:.1f} s on ({error or type(error).__name__})")


def _mean(chunk: Floats, channels: tuple[int, ...]) -> Floats:
    if len(channels) == 1:
        return np.ascontiguousarray(chunk[:, channels[0]])
    with np.errstate(all="ignore"):  # NaN and inf are refused later
        return chunk[:, channels] @ np.full(len(channels), 1 / len(channels), np.float32)


class ChannelLevels:
    """Powers of the channels of a recording and how they correlate, from chunks of samples, without their offsets."""

    def __init__(self, source: OpenedFile) -> None:
        self._low, self._window = source.low, max(1, round(_WINDOW_S * source.rate))
        self._frames = 0
        self._powers = [np.zeros((0, source.channels), np.float32)]  # of windows
        self._sums = np.zeros(source.channels)
        self._products = np.zeros((source.channels, source.channels))

    def add(self, chunk: Floats) -> None:
        """Adds samples [n, channels]; those of a single channel are ignored."""
        if len(self._sums) < 2 or not len(chunk):
            return
        self._frames += len(chunk)
        with np.errstate(all="ignore"):
            self._sums += np.ones(len(chunk), np.float32) @ chunk
            self._products += chunk.T @ chunk
            size = min(self._window, len(chunk))
            windows = chunk[: len(chunk) // size * size].reshape(-1, size, chunk.shape[1])
            self._powers.append(windows.var(axis=1))

    @property
    def _covariance(self) -> NDArray[np.float64]:
        """Of the channels [channels, channels]; its diagonal holds their powers."""
        means = self._sums / max(1, self._frames)
        return self._products / max(1, self._frames) - np.outer(means, means)

    @property
    def silent(self) -> tuple[int, ...]:
        """The channels that are silent beside the loudest one, apart from clicks and steady noise; 0-based."""
        powers = np.sort(np.concatenate(self._powers), axis=0)
        loudness = powers[-_CLICK:].min(axis=0, initial=np.inf)  # NaN is refused later
        is_steady = loudness < _STEADY * powers[len(powers) // 2] if len(powers) > 2 * _CLICK else loudness < 0
        least = np.where(is_steady, _HISS, _AUDIBLE) * loudness.max()
        return tuple(np.flatnonzero(loudness < np.maximum(_FAINTEST, least)).tolist())

    @property
    def alike(self) -> bool:
        """Whether the recording has two channels with the same sound."""
        (first, both), (_, second) = self._covariance[:2, :2]
        alike = both > _SAME * math.sqrt(max(first * second, 0.0))
        return len(self._sums) == 2 and bool(alike and abs(first - second) <= 0.01 * max(first, second))

    def mix(self) -> tuple[tuple[int, ...], str]:
        """The channels to average, 0-based, and why, if these are not all: LFE and silent ones are left out.

        If channels cancel each other in their mean, the loudest one is read alone.
        """
        covariance, silent = self._covariance, self.silent
        left_out = {"for low frequencies (LFE)": self._low, "silent": set(silent) - self._low}
        chosen = [index for index in range(len(self._sums)) if index not in self._low and index not in silent]
        if not chosen:
            return tuple(range(len(self._sums))), ""
        powers = np.diag(covariance)[chosen]
        loudest = chosen[int(np.argmax(powers))]
        whole = covariance[np.ix_(chosen, chosen)]
        if len(chosen) == 2 and powers.min() > _QUIETER * powers.max():
            correlation = float(whole[0, 1] / math.sqrt(powers[0] * powers[1]))
            if correlation < _INVERTED:
                return (loudest,), f"{listed(chosen)} are inverted copies (their correlation is {correlation:.2f})"
        elif len(chosen) > 2 and whole.sum() < _CANCELLED * powers.sum():
            return (loudest,), f"{listed(chosen)} cancel each other in their mean"
        why = [
            f"{listed(sorted(which))} {'are' if len(which) > 1 else 'is'} {what}"
            for what, which in left_out.items()
            if which
        ]
        return tuple(chosen), " and ".join(why)


def listed(channels: Sequence[int]) -> str:
    """Channels by their numbers from 1: `channel 2`, or `channels 1, 2 and 4`."""
    *first, last = (str(channel + 1) for channel in channels)
    return f"channels {', '.join(first)} and {last}" if first else f"channel {last}"
