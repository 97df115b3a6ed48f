"""Refuses recordings that hold nothing to describe: a model would invent a caption for them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specdec_cli.audio.files import refusal
from specdec_cli.errors import AudioContentError

Floats = NDArray[np.float32]

MIN_DURATION_S = 0.1
"""Shortest recording that is accepted, seconds."""

MAX_DURATION_S = 6 * 3600.0
"""Longest recording that is accepted, seconds."""

SILENCE_DBFS = -70.0
"""A recording whose loudest 20 ms are below this is silent; 0 dBFS is an RMS of 1.0."""

_MAX_PEAK = 100.0  # 1.0 is full scale, and float files hold a little more at most


class SampleStatistics:
    """Peak and level of mono samples that arrive block by block; it keeps one number for every 20 ms.

    Attributes:
        peak: largest magnitude; NaN or infinite if any sample is.
    """

    def __init__(self, sampling_rate: int) -> None:
        self.peak = 0.0
        self._frame = max(1, round(0.020 * sampling_rate))
        self._powers: list[Floats] = []
        self._rest = np.zeros(0, np.float32)

    def add(self, samples: Floats) -> None:
        """Count samples, float32 [n]."""
        self.peak = float(np.maximum(self.peak, np.abs(samples).max(initial=0.0)))  # np.maximum: NaN stays NaN
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) // self._frame * self._frame
        self._rest = joined[whole:].copy()
        with np.errstate(all="ignore"):  # NaN and inf are refused by their peak
            self._powers.append(joined[:whole].reshape(-1, self._frame).var(axis=1))

    def loudest_frame_dbfs(self) -> float:
        """RMS of the loudest 20 ms, in dB relative to an RMS of 1.0; -inf for digital silence.

        The mean of each frame is subtracted: a constant offset is no sound. Of five frames or more the first and the
        last do not count, because a resampled offset rings there.
        """
        powers = np.concatenate(self._powers)
        power = float((powers[1:-1] if len(powers) >= 5 else powers).max(initial=0.0))
        return 10 * math.log10(power) if power > 0 else -math.inf

    def require_content(self, path: str, duration_s: float) -> None:
        """Refuse samples in which there is nothing to describe; see `check_samples`."""
        if duration_s < MIN_DURATION_S:
            says = f"is too short: it lasts {duration_s:.3f} s, and {MIN_DURATION_S} s is the least"
            hint = "Name a recording with at least a few spoken words."
        elif not math.isfinite(self.peak):
            says = "holds samples that are not numbers (NaN or infinite)"
            hint = "Export it again, as 16-bit PCM for example; whatever wrote this file failed."
        elif self.peak > _MAX_PEAK:
            says = f"holds samples of up to {self.peak:.4g}, where full scale is 1.0"
            hint = "Its float samples seem to be integers: divide them by 32768, or export it as 16-bit PCM."
        elif (level := self.loudest_frame_dbfs()) < SILENCE_DBFS:
            moment = "every sample is the same" if level == -math.inf else f"its loudest moment is at {level:.0f} dBFS"
            says = f"is silent ({moment}): a caption would be invented"
            hint = "Check the microphone and its level, then record again."
        else:
            return
        raise refusal(AudioContentError, path, says, hint)


def check_samples(name: str, samples: Floats, sampling_rate: int) -> None:
    """Refuse samples in which there is nothing to describe.

    Args:
        name: what to call them in a message.
        samples: float32 mono [n], full scale 1.0.
        sampling_rate: of the samples, Hz.

    Raises:
        AudioContentError: they are shorter than 0.1 s, hold NaN or infinite values, are scaled as integers, or are
            silent: their loudest 20 ms frame, without its constant offset, is below -70 dBFS RMS.
    """
    statistics = SampleStatistics(sampling_rate)
    statistics.add(samples)
    statistics.require_content(name, len(samples) / sampling_rate)
