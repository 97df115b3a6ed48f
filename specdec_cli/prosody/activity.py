"""Where a clip has sound: its active frames, their level, and the pauses between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

SAMPLE_RATE: Final = 16_000
"""Of all samples here, Hz."""
FRAME: Final = SAMPLE_RATE // 100
"""Samples in a 10 ms frame."""
ACTIVE_WITHIN_DB: Final = 30.0
FLOOR_DBFS: Final = -75.0
SHORTEST_BLIP: Final = 4
SHORTEST_PAUSE: Final = 20
"""Frames: active runs under 40 ms are dropped, gaps of 200 ms or more are pauses."""


@dataclass(frozen=True)
class Activity:
    """Speech activity of a clip. `active`: bool, one value per 10 ms frame."""

    active: npt.NDArray[np.bool_]
    level_dbfs: float
    pause_ratio: float

    @property
    def speaking_s(self) -> float:
        """Active time in seconds, without pauses."""
        return float(self.active.sum()) / 100.0


def speech_activity(samples: npt.NDArray[np.float32]) -> Activity:
    """Frames within 30 dB of the 97th percentile frame and above -75 dBFS, blips under 40 ms dropped.

    Args:
        samples: mono [n] at 16 kHz; a constant offset is no sound.
    """
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    if not len(frames):
        return Activity(np.zeros(0, dtype=np.bool_), FLOOR_DBFS, 0.0)
    power = np.square(frames - frames.mean()).mean(axis=1)
    active = _loud(power)
    for start, stop in runs_of(active):
        if stop - start < SHORTEST_BLIP:
            active[start:stop] = False
    if not active.any():
        return Activity(active, FLOOR_DBFS, 0.0)
    first, last = np.flatnonzero(active)[[0, -1]]
    span = active[first : last + 1]
    gaps = sum(stop - start for start, stop in runs_of(~span) if stop - start >= SHORTEST_PAUSE)
    return Activity(active, 10.0 * float(np.log10(power[active].mean() + 1e-12)), float(gaps) / len(span))


def active_level_dbfs(power: npt.NDArray[np.floating]) -> float | None:
    """Level of the active frames, mean power in dB, of mean powers [frames] of frames of any length; None without."""
    active = _loud(power)
    return 10.0 * float(np.log10(power[active].mean())) if active.any() else None


def _loud(power: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    least = max(float(np.percentile(power, 97)) * 10 ** (-ACTIVE_WITHIN_DB / 10), 10 ** (FLOOR_DBFS / 10))
    loud: npt.NDArray[np.bool_] = power > least
    return loud


def runs_of(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Start and stop of each run of True in a mask [n], shape (runs, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)
