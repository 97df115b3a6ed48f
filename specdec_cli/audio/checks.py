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
    """Peak and level of mono samples that arrive block by block; it keeps two numbers for every 20 ms.

    Attributes:
        peak: largest magnitude; NaN or infinite if any sample is.
    """

    def __init__(self, sampling_rate: int) -> None:
        self.peak = 0.0
        self._frame = max(1, round(_FRAME_S * sampling_rate))
        self._frames: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []  # means and variances
        self._rest = np.zeros(0, np.float32)

    def add(self, samples: Floats) -> None:
        """Count samples, float32 [n]."""
        for start in range(0, len(samples), _BLOCK):
            block = samples[start : start + _BLOCK]
            self.peak = float(np.maximum(self.peak, np.abs(block).max()))  # np.maximum: NaN stays NaN
            joined = np.concatenate([self._rest, block])
            whole = len(joined) // self._frame * self._frame
            self._rest = joined[whole:].copy()
            frames = joined[:whole].reshape(-1, self._frame)
            with np.errstate(all="ignore"):  # NaN and inf are refused by their peak
                means = frames.mean(axis=1, dtype=np.float64)
                variances = np.square(frames - means[:, None]).mean(axis=1)
            if whole:
                self._frames.append((means, variances))

    def loudest_frame_dbfs(self) -> float:
        """RMS of the loudest 20 ms, in dB relative to an RMS of 1.0; -inf for digital silence.

        The constant offset of the whole is subtracted first: it is no sound. Of five frames or more the first and the
        last do not count, because a resampled offset rings there.
        """
        frames = self._frames.copy()
        if sum(len(means) for means, _ in frames) >= 5:
            frames[0] = (frames[0][0][1:], frames[0][1][1:])
            frames[-1] = (frames[-1][0][:-1], frames[-1][1][:-1])
        count = sum(len(means) for means, _ in frames)
        offset = sum(float(means.sum()) for means, _ in frames) / max(count, 1)
        powers = (float((variances + np.square(means - offset)).max(initial=0.0)) for means, variances in frames)
        power = max(powers, default=0.0)
        return 10 * math.log10(power) if power > 0 else -math.inf

    def require_content(self, name: str, duration_s: float) -> None:
        """Refuse samples in which there is nothing to describe; see `check_samples`."""
        if duration_s < MIN_DURATION_S:
            says = f"is too short: it lasts {duration_s:.3f} s, and {MIN_DURATION_S} s is the least"
            hint = "Name a recording with at least a few spoken words."
        elif not math.isfinite(self.peak):
            says = "holds samples that are not numbers (NaN or infinite)"
            hint = "Export it again, as 16-bit PCM for example; whatever wrote this file failed."
        elif self.peak > MAX_PEAK:
            says = f"holds samples of up to {self.peak:.4g}, where full scale is 1.0"
            hint = "Its float samples seem to be integers: divide them by 32768, or export it as 16-bit PCM."
        elif (level := self.loudest_frame_dbfs()) < SILENCE_DBFS:
            moment = "every sample is the same" if level == -math.inf else f"its loudest moment is at {level:.0f} dBFS"
            says = f"is silent ({moment}): a caption would be invented"
            hint = "Check the microphone and its level, then record again."
        else:
            return
        raise AudioContentError(f"{name} {says}.", hint=hint)


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
