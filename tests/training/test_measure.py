"""Measurements on waveforms whose values are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.training.conftest import tone
from training.corpus import SAMPLE_RATE, read_audio
from training.labels import read_rows
from training.measure import alpha_ratio_db, speech_activity
from training.pitch import f0_median_and_range, f0_track


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


def test_brighter_sound_has_a_higher_alpha_ratio() -> None:
    dark, bright = tone(110, 0.5), tone(900, 0.5)
    values = [alpha_ratio_db(wave, np.ones(50, dtype=np.bool_)) for wave in (dark, bright)]
    assert values[0] is not None
    assert values[1] is not None
    assert values[0] < values[1]


@pytest.mark.data
def test_measures_agree_with_the_table(data: Path) -> None:
    rows = read_rows(data)[::400]
    levels, pauses, pitches = [], [], []
    for row in rows:
        waveform, known = read_audio(data / row.file), row.measures
        activity, f0 = speech_activity(waveform), f0_median_and_range(f0_track(waveform))
        assert known.level_dbfs is not None
        assert known.pause_ratio is not None
        levels.append(abs(activity.level_dbfs - known.level_dbfs))
        pauses.append(abs(activity.pause_ratio - known.pause_ratio))
        if f0 and known.f0_hz:
            pitches.append(abs(12 * np.log2(f0[0] / known.f0_hz)))
    assert np.median(levels) < 0.2
    assert np.quantile(pauses, 0.9) < 0.05
    assert np.median(pitches) < 0.3
