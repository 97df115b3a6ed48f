"""Measurements of a waveform with the definitions behind the labels: activity, level, pauses and timbre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from training.corpus import SAMPLE_RATE, Waveform

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


def _runs(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Start and stop of each run of True, shape (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def speech_activity(waveform: Waveform) -> Activity:
    """Frames within 30 dB of the 97th percentile frame and above -75 dBFS, blips under 40 ms dropped."""
    frames = waveform[: len(waveform) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    if not len(frames):
        return Activity(np.zeros(0, dtype=np.bool_), FLOOR_DBFS, 0.0)
    power = np.square(frames).mean(axis=1)
    level = 10.0 * np.log10(power + 1e-12)
    active = (level > np.percentile(level, 97) - ACTIVE_WITHIN_DB) & (level > FLOOR_DBFS)
    for start, stop in _runs(active):
        if stop - start < SHORTEST_BLIP:
            active[start:stop] = False
    if not active.any():
        return Activity(active, FLOOR_DBFS, 0.0)
    first, last = np.flatnonzero(active)[[0, -1]]
    span = active[first : last + 1]
    gaps = sum(stop - start for start, stop in _runs(~span) if stop - start >= SHORTEST_PAUSE)
    return Activity(active, 10.0 * float(np.log10(power[active].mean() + 1e-12)), float(gaps) / len(span))


def alpha_ratio_db(waveform: Waveform, active: npt.NDArray[np.bool_]) -> float | None:
    """Energy of 1-5 kHz over 50-1000 Hz in active speech, dB (the alpha ratio of eGeMAPS, Eyben et al. 2016)."""
    frames = waveform[: len(active) * FRAME].reshape(-1, FRAME)[active]
    if len(frames) < 5:
        return None
    spectrum = np.square(np.abs(np.fft.rfft(frames * np.hanning(FRAME).astype(np.float32), n=512, axis=1))).sum(axis=0)
    frequency = np.fft.rfftfreq(512, 1.0 / SAMPLE_RATE)
    high = spectrum[(frequency >= 1000) & (frequency < 5000)].sum()
    low = spectrum[(frequency >= 50) & (frequency < 1000)].sum()
    return 10.0 * float(np.log10((high + 1e-12) / (low + 1e-12)))
