"""A change of tempo changes the duration and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.prosody.activity import speech_activity
from specdec_cli.prosody.pitch import f0_median_and_range, f0_track
from tests.training.conftest import tone
from training.tempo import change_tempo


@pytest.mark.parametrize("tempo", [0.7, 1.0, 1.5])
def test_duration_follows_and_pitch_and_level_stay(tempo: float) -> None:
    wave = tone(140.0, 2.0, -20.0)
    changed = change_tempo(wave, tempo)
    assert len(wave) / len(changed) == pytest.approx(tempo, rel=0.06)
    found = f0_median_and_range(f0_track(changed))
    assert found is not None
    assert found[0] == pytest.approx(140.0, rel=0.03)
    assert speech_activity(changed).level_dbfs == pytest.approx(-20.0, abs=1.0)


def test_a_very_short_clip_is_left_alone() -> None:
    wave = np.zeros(900, dtype=np.float32)
    assert change_tempo(wave, 1.3) is wave
