"""Timbre of a waveform, with the definition behind the labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from specdec_cli.audio.prosody import HOP
from training.corpus import SAMPLE_RATE, Waveform


def alpha_ratio_db(waveform: Waveform, active: npt.NDArray[np.bool_]) -> float | None:
    """Energy of 1-5 kHz over 50-1000 Hz in active speech, dB (the alpha ratio of eGeMAPS, Eyben et al. 2016)."""
    frames = waveform[: len(active) * HOP].reshape(-1, HOP)[active]
    if len(frames) < 5:
        return None
    spectrum = np.square(np.abs(np.fft.rfft(frames * np.hanning(HOP).astype(np.float32), n=512, axis=1))).sum(axis=0)
    frequency = np.fft.rfftfreq(512, 1.0 / SAMPLE_RATE)
    high = spectrum[(frequency >= 1000) & (frequency < 5000)].sum()
    low = spectrum[(frequency >= 50) & (frequency < 1000)].sum()
    return 10.0 * float(np.log10((high + 1e-12) / (low + 1e-12)))
