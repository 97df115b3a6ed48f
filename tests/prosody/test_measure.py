"""Measured figures of sounds whose values are known, and beside the table's and Praat's."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.prosody.activity import speech_activity
from specdec_cli.prosody.pitch import f0_median_and_range, f0_track
from tests.training.conftest import tone
from training.corpus import SAMPLE_RATE


def test_level_and_pauses_of_two_tones() -> None:
    gap = np.zeros(SAMPLE_RATE // 2, dtype=np.float32)
    activity = speech_activity(np.concatenate([tone(150, 1.0, -25.0), gap, tone(150, 1.0, -25.0)]))
    assert activity.level_dbfs == pytest.approx(-25.0, abs=0.1)
    assert activity.pause_ratio == pytest.approx(0.2, abs=0.01)
    assert activity.speaking_s == pytest.approx(2.0, abs=0.03)


def test_short_gaps_are_no_pauses() -> None:
    gap = np.zeros(int(0.15 * SAMPLE_RATE), dtype=np.float32)
    assert speech_activity(np.concatenate([tone(150, 1.0), gap, tone(150, 1.0)])).pause_ratio == 0.0


def test_silence_has_no_activity() -> None:
    assert not speech_activity(np.zeros(SAMPLE_RATE, dtype=np.float32)).active.any()


@pytest.mark.parametrize("frequency", [80.0, 120.0, 210.0, 380.0])
def test_f0_of_a_tone(frequency: float) -> None:
    found = f0_median_and_range(f0_track(tone(frequency, 1.0)))
    assert found is not None
    assert found[0] == pytest.approx(frequency, rel=0.03)
    assert found[1] < 1.0


def test_noise_is_unvoiced() -> None:
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE).astype(np.float32) * 0.1
    assert f0_median_and_range(f0_track(noise)) is None
