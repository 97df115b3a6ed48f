"""Recordings that are in memory already."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

from specdec_cli.audio.checks import Floats, check_samples
from specdec_cli.audio.load import Segment
from specdec_cli.errors import AudioContentError

_HIGHEST_RATE: Final = 1e6  # Hz
_FULL_SCALE: Final = {
    np.dtype(np.uint8): (128.0, 2.0**7),
    np.dtype(np.int16): (0.0, 2.0**15),
    np.dtype(np.int32): (0.0, 2.0**31),
}
"""Type of integer samples -> (silence, full scale)."""


def from_samples(
    samples: npt.ArrayLike, sample_rate: float, sampling_rate: int, window_s: float, name: str
) -> tuple[Segment, str]:
    """Samples as a recording in one piece at `sampling_rate`, and the SHA-256 of what was given, as float32.

    Args:
        samples: mono [n]: floats of full scale 1.0, or integers of 8 (unsigned), 16 or 32 bits.
        sample_rate: of the samples, Hz.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds.
        name: what to call them in a message.

    Raises:
        AudioContentError: not a mono recording, too short, too long, silent, or not finite.
    """
    if not isinstance(sample_rate, int | float | np.number) or not 1.0 <= sample_rate <= _HIGHEST_RATE:
        raise AudioContentError(f"{name} cannot have the sample rate {sample_rate!r}", hint="Give its rate in Hz.")
    given = _mono(samples, name)
    duration_s = len(given) / float(sample_rate)
    if duration_s > window_s:
        raise AudioContentError(
            f"{name} lasts {duration_s:.2f} s, but the models take {window_s:g} s at once",
            hint="Cut it into shorter pieces.",
        )
    check_samples(name, given, round(float(sample_rate)))
    array = given
    if sample_rate != sampling_rate:
        import soxr

        array = soxr.resample(given, sample_rate, sampling_rate)
    return Segment(array, 0.0, duration_s), hashlib.sha256(given.tobytes()).hexdigest()


def _mono(samples: npt.ArrayLike, name: str) -> Floats:
    """float32 [n] of full scale 1.0."""
    try:
        array = np.asarray(samples)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: PyTorch's
        raise AudioContentError(f"{name} cannot be read as an array: {error}") from error
    if array.ndim != 1:
        raise AudioContentError(
            f"{name} has the shape {array.shape}; mono samples [n] are wanted",
            hint="Mix its channels: samples.mean(axis=1) of [n, channels], samples.mean(axis=0) of [channels, n].",
        )
    if array.dtype in _FULL_SCALE:
        silence, full_scale = _FULL_SCALE[array.dtype]
        array = (array.astype(np.float64) - silence) / full_scale
    elif array.dtype.kind != "f":
        raise AudioContentError(
            f"{name} holds values of the type {array.dtype}, whose full scale is not known",
            hint="Give floats from -1.0 to 1.0, or integers of 16 bits: numpy.asarray(samples, dtype=numpy.int16).",
        )
    return np.ascontiguousarray(array, dtype=np.float32)
