"""Refuses recordings that hold nothing to describe: a model would invent a caption for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from specdec_cli.audio.decoded import Floats
from specdec_cli.audio.files import shown
from specdec_cli.errors import AudioContentError

if TYPE_CHECKING:
    from specdec_cli.audio.recording import Recording

MIN_DURATION_S = 0.1
"""Shortest recording that is taken, seconds."""

MAX_DURATION_S = 6 * 3600.0
"""Longest recording that is taken, seconds."""

SILENCE_DBFS = -70.0
"""A recording whose loudest 20 ms are below this is silent; 0 dBFS is an RMS of 1.0."""

MAX_PEAK = 100.0
"""Largest sample that is believed; 1.0 is full scale, and float files hold a little more at most."""

_FRAME_S = 0.020
_BATCH = 4096


def check_content(recording: Recording) -> None:
    """Refuse a recording in which there is nothing to describe.

    Raises:
        AudioContentError: it is shorter than 0.1 s, holds NaN or infinite samples, is scaled as integers in a float
            file, or is silent: its loudest 20 ms frame, without the constant offset, is below -70 dBFS RMS.
    """
    name, samples = shown(recording.path), recording.samples
    if recording.duration_s < MIN_DURATION_S or not len(samples):
        raise AudioContentError(
            f"{name} is too short: it lasts {recording.duration_s:.3f} s, and {MIN_DURATION_S} s is the least.",
            hint="Name a recording with at least a few spoken words.",
        )
    if not np.isfinite(samples).all():
        raise AudioContentError(
            f"{name} holds samples that are not numbers (NaN or infinite).",
            hint="Export it again, as 16-bit PCM for example; whatever wrote this file failed.",
        )
    peak = float(np.abs(samples).max())
    if peak > MAX_PEAK:
        raise AudioContentError(
            f"{name} holds samples of up to {peak:.4g}, where full scale is 1.0.",
            hint="Its float samples seem to be scaled as integers: divide them by 32768, or export it as 16-bit PCM.",
        )
    level = loudest_frame_dbfs(samples, recording.sampling_rate)
    if level < SILENCE_DBFS:
        raise AudioContentError(
            f"{name} is silent ({_level(level)}): a caption would be invented.",
            hint="Check the microphone and its level, then record again.",
        )


def loudest_frame_dbfs(samples: Floats, sampling_rate: int) -> float:
    """RMS of the loudest 20 ms, in dB relative to an RMS of 1.0; -inf for digital silence.

    The constant offset is taken off first: it is no sound. Of five frames or more the first and the last do not count,
    because a resampled offset rings there.
    """
    size = max(1, round(_FRAME_S * sampling_rate))
    count = len(samples) // size
    if count == 0:
        frames = samples[None, :]
    else:
        frames = samples[: count * size].reshape(count, size)
        frames = frames[1:-1] if count >= 5 else frames
    if frames.size == 0:
        return -math.inf
    offset = float(frames.mean(dtype=np.float64))
    power = 0.0
    for start in range(0, len(frames), _BATCH):
        centred = frames[start : start + _BATCH].astype(np.float64) - offset
        power = max(power, float(np.square(centred).mean(axis=1).max()))
    return 10 * math.log10(power) if power > 0 else -math.inf


def _level(dbfs: float) -> str:
    return "every sample is the same" if dbfs == -math.inf else f"its loudest moment is at {dbfs:.0f} dBFS"
