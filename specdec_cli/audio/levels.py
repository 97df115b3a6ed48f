"""Silence and active speech, by one definition each for recordings, clips, and utterances between pauses.

Silence: no 20 ms of a recording reach -70 dBFS. Active speech: frames within 30 dB of the loud ones (the 97th
percentile) and above -75 dBFS. 0 dBFS is an RMS of 1.0. The power of a frame is its mean square.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import Floats
from specdec_cli.errors import AudioContentError

Powers = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]

MIN_DURATION_S: Final = 0.1  # shortest recording that is accepted
SILENCE_DBFS: Final = -70.0  # the loudest 20 ms of a silent recording are below
FLOOR_DBFS: Final = -75.0  # active frames are above
ACTIVE_WITHIN_DB: Final = 30.0  # from the loud frames down to the quietest active one
_LOUD_PERCENTILE: Final = 97
_MAX_PEAK: Final = 100.0  # full scale is 1.0; files of floats exceed it slightly


def active(power: Powers, within_db: float = ACTIVE_WITHIN_DB) -> Mask:
    """Which frames are active speech, bool [frames], by their powers [frames]."""
    least = max(float(np.percentile(power, _LOUD_PERCENTILE)) * 10 ** (-within_db / 10), 10 ** (FLOOR_DBFS / 10))
    return np.asarray(power > least, np.bool_)


def active_level_dbfs(power: Powers) -> float | None:
    """Level of the active frames, dBFS: their mean power. From powers [frames]; None without active frames."""
    found = active(power)
    return 10.0 * float(np.log10(power[found].mean())) if found.any() else None


def stretches_of(mask: Mask) -> npt.NDArray[np.intp]:
    """Start and stop of each stretch of True in a mask [n], shape (stretches, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


class SampleStatistics:
    """Peak and level of mono samples that arrive chunk by chunk. One number is kept for every 20 ms."""

    def __init__(self, sampling_rate: int, samples: Floats | None = None) -> None:
        self.peak = 0.0  # largest magnitude; NaN or infinite if any sample is
        self._frame = max(1, round(0.020 * sampling_rate))
        self._powers = [np.zeros(0, np.float32)]
        self._rest = np.zeros(0, np.float32)
        if samples is not None:
            self.add(samples)

    def add(self, samples: Floats) -> None:
        """Adds samples, float32 [n]."""
        self.peak = float(np.maximum(self.peak, np.abs(samples).max(initial=0.0)))  # np.maximum: NaN stays NaN
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) // self._frame * self._frame
        self._rest = joined[whole:].copy()
        with np.errstate(all="ignore"):  # NaN and inf are refused by their peak
            self._powers.append(joined[:whole].reshape(-1, self._frame).var(axis=1))

    def level_dbfs(self) -> float | None:
        """Level of the active frames without their constant offset; see `active_level_dbfs`."""
        return active_level_dbfs(np.concatenate(self._powers))

    @property
    def loudest(self) -> float:
        """Power of the loudest 20 ms."""
        powers = np.concatenate(self._powers)
        inner = powers[1:-1] if len(powers) >= 5 else powers  # a resampled offset rings at the ends
        return float(inner.max(initial=0.0))

    @property
    def silent(self) -> bool:
        """Whether all of it is silent."""
        return self.loudest < 10 ** (SILENCE_DBFS / 10)

    def fault(self, name: str, duration_s: float) -> AudioContentError | None:
        """The error for samples that cannot be described, of the recording or piece `name`; None if they can."""
        if duration_s < MIN_DURATION_S:
            says = f"is too short: it lasts {duration_s:.3f} s, and {MIN_DURATION_S} s is the least"
        elif not math.isfinite(self.peak):
            says = "holds samples that are not numbers (NaN or infinite)"
        elif self.peak > _MAX_PEAK:
            says = f"holds samples of up to {self.peak:.4g}, where full scale is 1.0"
        elif self.silent:
            level = 10 * math.log10(self.loudest) if self.loudest else -math.inf
            says = f"is silent (at {level:.0f} dBFS at most): a caption would be invented"
        else:
            return None
        hint = "Record it again, or export it as 16-bit PCM, with a few words that can be heard."
        return audio_error(AudioContentError, name, says, hint)
