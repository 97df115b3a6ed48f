"""Refuses recordings that hold nothing to describe: a model would invent a caption for them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specdec_cli.audio.files import shown
from specdec_cli.errors import AudioContentError

Floats = NDArray[np.float32]

MIN_DURATION_S = 0.1
"""Shortest recording that is accepted, seconds."""

MAX_DURATION_S = 6 * 3600.0
"""Longest recording that is accepted, seconds."""

SILENCE_DBFS = -70.0
"""A recording whose loudest 20 ms are below this is silent; 0 dBFS is an RMS of 1.0."""

MAX_PEAK = 100.0
"""Largest plausible sample; 1.0 is full scale, and float files hold a little more at most."""

_FRAME_S = 0.020
_BLOCK = 1 << 18


class SampleStatistics:
    """Peak and level of mono samples that arrive block by block. It keeps two numbers for every 20 ms.

    Args:
        sampling_rate: of the samples, Hz.
    """

    def __init__(self, sampling_rate: int) -> None:
        self.peak = 0.0
        """Largest magnitude; NaN or infinite if any sample is."""
        self._frame = max(1, round(_FRAME_S * sampling_rate))
        self._means: list[NDArray[np.float64]] = []
        self._variances: list[NDArray[np.float64]] = []
        self._rest = np.zeros(0, np.float32)

    def add(self, samples: Floats) -> None:
        """Count a block of samples, float32 [n]."""
        for start in range(0, len(samples), _BLOCK):
            block = samples[start : start + _BLOCK]
            self.peak = float(np.maximum(self.peak, np.abs(block).max()))  # np.maximum: NaN stays NaN
            joined = np.concatenate([self._rest, block])
            whole = len(joined) // self._frame * self._frame
            self._rest = joined[whole:].copy()
            self._add_frames(joined[:whole].reshape(-1, self._frame))

    def loudest_frame_dbfs(self) -> float:
        """RMS of the loudest 20 ms, in dB relative to an RMS of 1.0; -inf for digital silence.

        The constant offset of the whole is subtracted first: it is no sound. Of five frames or more the first and the
        last do not count, because a resampled offset rings there.
        """
        if not self._means and len(self._rest):
            self._add_frames(self._rest[None, :])
        if not self._means:
            return -math.inf
        means, variances = np.concatenate(self._means), np.concatenate(self._variances)
        if len(means) >= 5:
            means, variances = means[1:-1], variances[1:-1]
        power = float((variances + np.square(means - means.mean())).max())
        return 10 * math.log10(power) if power > 0 else -math.inf

    def require_content(self, name: str, duration_s: float) -> None:
        """Refuse samples in which there is nothing to describe; see `check_samples`."""
        if duration_s < MIN_DURATION_S:
            raise AudioContentError(
                f"{name} is too short: it lasts {duration_s:.3f} s, and {MIN_DURATION_S} s is the least.",
                hint="Name a recording with at least a few spoken words.",
            )
        if not math.isfinite(self.peak):
            raise AudioContentError(
                f"{name} holds samples that are not numbers (NaN or infinite).",
                hint="Export it again, as 16-bit PCM for example; whatever wrote this file failed.",
            )
        if self.peak > MAX_PEAK:
            raise AudioContentError(
                f"{name} holds samples of up to {self.peak:.4g}, where full scale is 1.0.",
                hint="Its float samples seem to be scaled as integers: divide them by 32768, or export it as 16-bit "
                "PCM.",
            )
        level = self.loudest_frame_dbfs()
        if level < SILENCE_DBFS:
            moment = "every sample is the same" if level == -math.inf else f"its loudest moment is at {level:.0f} dBFS"
            raise AudioContentError(
                f"{name} is silent ({moment}): a caption would be invented.",
                hint="Check the microphone and its level, then record again.",
            )

    def _add_frames(self, frames: Floats) -> None:
        with np.errstate(all="ignore"):  # NaN and inf are refused by their peak
            means = frames.mean(axis=1, dtype=np.float64)
            self._means.append(means)
            self._variances.append(np.square(frames - means[:, None]).mean(axis=1))


def check_samples(name: str, samples: Floats, sampling_rate: int) -> None:
    """Refuse samples in which there is nothing to describe.

    Args:
        name: what to call them in a message.
        samples: float32 mono [n], full scale 1.0.
        sampling_rate: of the samples, Hz.

    Raises:
        AudioContentError: they are shorter than 0.1 s, hold NaN or infinite values, are scaled as integers, or are
            silent: their loudest 20 ms frame, without the constant offset, is below -70 dBFS RMS.
    """
    statistics = SampleStatistics(sampling_rate)
    statistics.add(samples)
    statistics.require_content(shown(name), len(samples) / sampling_rate)


def is_silent(samples: Floats, sampling_rate: int) -> bool:
    """Whether nothing in the samples, float32 mono [n], is above -70 dBFS."""
    statistics = SampleStatistics(sampling_rate)
    statistics.add(samples)
    return statistics.loudest_frame_dbfs() < SILENCE_DBFS
