"""Clips of the data folder, 16 kHz mono throughout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile

SAMPLE_RATE: Final = 16_000
Waveform = npt.NDArray[np.float32]


def read_audio(path: Path) -> Waveform:
    """A clip, float32 in [-1, 1]."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=False)
    if rate != SAMPLE_RATE or samples.ndim != 1:
        raise ValueError(f"{path}: expected {SAMPLE_RATE} Hz mono, got {rate} Hz with shape {samples.shape}")
    return np.asarray(samples, dtype=np.float32)


def to_pcm(waveform: Waveform) -> npt.NDArray[np.int16]:
    """Samples of 16 bits."""
    return np.clip(np.round(waveform * 32768.0), -32768, 32767).astype(np.int16)
