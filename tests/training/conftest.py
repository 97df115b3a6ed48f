"""Small synthetic tones to train on."""

import numpy as np
import pytest

from training.augment import Source
from training.corpus import SAMPLE_RATE, Waveform
from training.labels import Measures


def tone(frequency: float, seconds: float, level_dbfs: float = -20.0) -> Waveform:
    """A harmonic tone whose mean power is `level_dbfs`."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    wave = sum(np.sin(2 * np.pi * frequency * order * time) / order for order in range(1, 9))
    wave = wave * 10 ** (level_dbfs / 20) / np.sqrt(np.mean(np.square(wave)))
    return np.asarray(wave, dtype=np.float32)


@pytest.fixture(scope="session")
def toy() -> tuple[list[Source], dict[str, Waveform]]:
    """Eight tones of two speakers, low and angry or high and happy."""
    sources, waveforms = [], {}
    for number in range(8):
        high = number % 2 == 1
        key = f"toy/{number}"
        frequency = (220.0 if high else 100.0) + number
        waveforms[key] = tone(frequency, 1.0 + 0.05 * number)
        measures = Measures("f" if high else "m", frequency, 3.0, None, 4.0 + number / 4, 0.0)
        emotion = {"happy" if high else "angry": 1.0}
        sources.append(Source(key, "toy", f"toy_{number % 2}", measures, emotion))
    return sources, waveforms
