"""Blocks of any rate and any number of channels to mono at one rate (soxr, high quality)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from specdec_cli.audio.checks import Floats
from specdec_cli.audio.decode import Sound

_CANCELLED = 0.1


class Mixdown:
    """Iterates over a recording as blocks of mono samples, float32 [n], at `sampling_rate`.

    Args:
        sound: an open recording.
        sampling_rate: of the result, Hz.
        channel: use this one instead of the mean over the channels.
    """

    def __init__(self, sound: Sound, sampling_rate: int, channel: int | None = None) -> None:
        self.frames = 0
        """Samples per channel decoded so far, at the recording's rate."""
        self._sound, self._sampling_rate, self._channel = sound, sampling_rate, channel
        self._columns = sound.channels + 1
        self._sums = np.zeros((2, self._columns))  # of the mean and of each channel; and of their squares
        self._summed = 0

    def __iter__(self) -> Iterator[Floats]:
        source, target = self._sound.sampling_rate, self._sampling_rate
        resampler = _resampler(source, target) if source != target else None
        for block in self._sound.blocks:
            self.frames += len(block)
            mono = self._mixed(block)
            yield mono if resampler is None else resampler.resample_chunk(mono)
        if resampler is not None and self.frames:
            yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)

    @property
    def duration_s(self) -> float:
        """Length of the frames so far, seconds."""
        return self.frames / self._sound.sampling_rate

    @property
    def length(self) -> int:
        """Samples that the frames so far amount to; the resampler's own count may differ by one."""
        return round(self.frames * self._sampling_rate / self._sound.sampling_rate)

    def cancelled(self) -> int | None:
        """The loudest channel if the mean is 20 dB below what that channel alone would leave in it (antiphase)."""
        if not self._summed:
            return None
        means, squares = self._sums / self._summed
        if not np.isfinite(squares).all():
            return None
        mixed, *channels = np.sqrt(np.maximum(squares - means * means, 0.0)).tolist()
        loudest = max(channels)
        return channels.index(loudest) if mixed < _CANCELLED * loudest / len(channels) else None

    def _mixed(self, block: Floats) -> Floats:
        channels = block.shape[1]
        if channels == 1:
            return np.ascontiguousarray(block[:, 0])
        if self._channel is not None:
            return np.ascontiguousarray(block[:, min(self._channel, channels - 1)])
        with np.errstate(all="ignore"):  # NaN and inf are refused later
            mean: Floats = block.mean(axis=1, dtype=np.float32)
            columns = np.column_stack([mean, block])
            if columns.shape[1] == self._columns:  # the number of channels may change; the first layout decides
                self._sums[0] += columns.sum(axis=0, dtype=np.float64)
                self._sums[1] += np.einsum("nc,nc->c", columns, columns, dtype=np.float64)
                self._summed += len(block)
        return mean


def _resampler(source: int, target: int) -> Any:
    import soxr

    return soxr.ResampleStream(source, target, 1, dtype="float32", quality="HQ")
