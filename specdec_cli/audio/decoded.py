"""What a decoder gives: blocks of float samples, with what the file says about itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MIN_RATE, MAX_RATE = 1_000, 768_000
"""Sampling rates that are believed, Hz. Anything else is a damaged header."""


class NotThisDecoder(Exception):
    """The decoder does not know the format or the codec; another one may."""


class NoSoundTrack(NotThisDecoder):
    """The file is whole and holds pictures or text only."""


class DamagedAudio(Exception):
    """The decoder knows the format, and the data is broken. The text completes "... cannot be decoded: "."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An open recording.

    Attributes:
        sampling_rate: Hz.
        channels: of the first block; a stream may change it.
        frames: samples per channel that the header claims, or None when it does not say.
        blocks: float32 [frames, channels], full scale 1.0. Raises DamagedAudio part-way.
    """

    sampling_rate: int
    channels: int
    frames: int | None
    blocks: Iterator[Floats]


def require_plausible(sampling_rate: int, channels: int) -> None:
    """Raise DamagedAudio when a header claims a rate or a channel count that no recording has."""
    if not MIN_RATE <= sampling_rate <= MAX_RATE:
        raise DamagedAudio(f"its header claims a sampling rate of {sampling_rate:,} Hz")
    if channels < 1:
        raise DamagedAudio("its header claims no channels")
