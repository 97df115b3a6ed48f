"""The measured figures of a clip: F0, level, rate and pauses, by the definitions that the mini pair's labels have."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from specdec_cli.prosody.activity import speech_activity
from specdec_cli.prosody.pitch import SAMPLE_RATE, f0_contour, f0_median_and_range
from specdec_cli.prosody.rate import syllable_nuclei
from specdec_cli.types import Measured

LEAST_SPEAKING_S: Final = 0.3
"""A rate over less speech than this would tell nothing."""


def measure(samples: npt.NDArray[np.float32], sampling_rate: int, recording_dbfs: float | None = None) -> Measured:
    """The figures of a clip; see `Measured` for their definitions.

    Args:
        samples: mono [n] of full scale 1.0.
        sampling_rate: of the samples, Hz.
        recording_dbfs: level of the active frames of the recording that it is a piece of; None: it is a whole one.
    """
    if sampling_rate != SAMPLE_RATE:
        import soxr

        samples = soxr.resample(samples, sampling_rate, SAMPLE_RATE)
    activity, contour = speech_activity(samples), f0_contour(samples)
    if not activity.active.any():
        return Measured()
    pitch = f0_median_and_range(contour[~np.isnan(contour)])
    rate = None
    if pitch is not None and activity.speaking_s >= LEAST_SPEAKING_S:
        rate = round(syllable_nuclei(samples, contour) / activity.speaking_s, 2)
    return Measured(
        f0_median_hz=round(pitch[0], 1) if pitch else None,
        f0_range_st=round(pitch[1], 2) if pitch else None,
        level_dbfs=round(activity.level_dbfs, 1),
        level_relative_db=None if recording_dbfs is None else round(activity.level_dbfs - recording_dbfs, 1),
        rate_per_s=rate,
        pause_share=round(activity.pause_ratio, 3),
    )
