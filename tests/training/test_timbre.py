"""Timbre of waveforms whose spectrum is known."""

from __future__ import annotations

import numpy as np

from tests.training.conftest import tone
from training.timbre import alpha_ratio_db


def test_brighter_sound_has_a_higher_alpha_ratio() -> None:
    dark, bright = tone(110, 0.5), tone(900, 0.5)
    values = [alpha_ratio_db(wave, np.ones(50, dtype=np.bool_)) for wave in (dark, bright)]
    assert values[0] is not None
    assert values[1] is not None
    assert values[0] < values[1]
