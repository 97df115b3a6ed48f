"""Blocks of any rate and any number of channels to mono at one rate, holding only the mono result in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdec_cli.audio.decoded import Decoded, Floats

_CANCELLED = 0.1


class TooLong(Exception):
    """More sound than is taken in.

    Attributes:
        duration_s: what the header claims, or what was decoded before giving up, seconds.
    """

    def __init__(self, duration_s: float) -> None:
        super().__init__(duration_s)
        self.duration_s = duration_s


@dataclass(frozen=True, slots=True)
class Mono:
    """A whole recording in one channel.

    Attributes:
        samples: float32 [n] at the rate that was asked for.
        frames: samples per channel that the file held, at its own rate.
        cancelled: the loudest channel, when the mean of the channels loses it (antiphase); None otherwise.
    """

    samples: Floats
    frames: int
    cancelled: int | None


def to_mono(decoded: Decoded, sampling_rate: int, max_s: float, channel: int | None = None) -> Mono:
    """Mix down and resample (soxr, high quality).

    Args:
        decoded: an open recording.
        sampling_rate: of the result, Hz.
        max_s: longest recording that is taken, seconds.
        channel: take this one instead of the mean over the channels.

    Raises:
        TooLong: the header claims, or the file holds, more than `max_s`.
        DamagedAudio: from the decoder, part-way.
    """
    limit = int(max_s * decoded.sampling_rate)
    if decoded.frames is not None and decoded.frames > limit:
        raise TooLong(decoded.frames / decoded.sampling_rate)
    resampler = _resampler(decoded.sampling_rate, sampling_rate)
    levels = _Levels()
    parts: list[Floats] = []
    frames = 0
    with np.errstate(all="ignore"):  # NaN and inf pass through and are refused by check_content
        for block in decoded.blocks:
            frames += len(block)
            if frames > limit:
                raise TooLong(frames / decoded.sampling_rate)
            mean = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
            levels.add(block, mean)
            mixed = mean if channel is None else block[:, min(channel, block.shape[1] - 1)]
            mixed = np.ascontiguousarray(mixed)
            parts.append(mixed if resampler is None else resampler.resample_chunk(mixed))
        if resampler is not None and frames:
            parts.append(resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        cancelled = levels.cancelled() if channel is None else None
    wanted = round(frames * sampling_rate / decoded.sampling_rate)
    return Mono(_of_length(parts, wanted), frames, cancelled)


def _resampler(source: int, target: int) -> Any:
    if source == target:
        return None
    import soxr

    return soxr.ResampleStream(source, target, 1, dtype="float32", quality="HQ")


def _of_length(parts: list[Floats], wanted: int) -> Floats:
    """One array of exactly `wanted` samples; the resampler's own count may differ by one."""
    joined = np.concatenate([*parts, np.zeros(0, np.float32)]).astype(np.float32, copy=False)
    if len(joined) >= wanted:
        return np.ascontiguousarray(joined[:wanted])
    return np.pad(joined, (0, wanted - len(joined)))


class _Levels:
    """Standard deviation of each channel and of their mean, summed block by block."""

    def __init__(self) -> None:
        self._sums: NDArray[np.float64] | None = None
        self._squares: NDArray[np.float64] | None = None
        self._frames = 0

    def add(self, block: Floats, mean: Floats) -> None:
        if block.shape[1] == 1:
            return
        columns = np.column_stack([mean, block])
        sums = columns.sum(axis=0, dtype=np.float64)
        squares = np.einsum("nc,nc->c", columns, columns, dtype=np.float64)
        if self._sums is None or self._squares is None:
            self._sums, self._squares = sums, squares
        elif self._sums.shape == sums.shape:
            self._sums += sums
            self._squares += squares
        else:
            return  # the number of channels changed part-way; the first layout decides
        self._frames += len(block)

    def cancelled(self) -> int | None:
        """The loudest channel if the mean is 20 dB below what that channel alone would leave in it."""
        if self._sums is None or self._squares is None:
            return None
        mean = self._sums / self._frames
        deviation = np.sqrt(np.maximum(self._squares / self._frames - mean * mean, 0.0))
        mixed, channels = deviation[0], deviation[1:]
        if not np.isfinite(deviation).all():
            return None
        loudest = int(channels.argmax())
        return loudest if mixed < _CANCELLED * channels[loudest] / len(channels) else None
