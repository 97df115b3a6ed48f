"""Measured figures of sounds whose values are known, and beside the table's and Praat's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soxr

from specdec_cli.audio.prosody import f0_median_and_range, f0_track, measure, speech_activity
from specdec_cli.types import Measured
from tests.training.conftest import tone
from training.corpus import SAMPLE_RATE, read_audio
from training.labels import read_rows


def test_no_share_of_pauses_is_given_where_noise_lies_at_the_limit() -> None:
    """Frames of noise would count as speech or as a pause by chance."""
    rng, voiced = np.random.default_rng(0), tone(150, 0.5)
    gap = np.zeros_like(voiced)
    clean = np.concatenate([voiced, gap, voiced, gap, voiced])
    level = float(np.sqrt(np.square(voiced).mean()))
    for below_db, clear in ((30.0, False), (60.0, True)):
        noise = rng.normal(0.0, level * 10 ** (-below_db / 20), len(clean)).astype(np.float32)
        assert speech_activity(clean + noise).pauses_are_clear == clear
        assert (measure(clean + noise, SAMPLE_RATE).pause_share is not None) == clear


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


def syllables(count: int, seconds: float, hertz: float = 150.0) -> np.ndarray:
    """A voiced sound that swells `count` times."""
    swell = np.sin(np.pi * count * np.arange(round(seconds * SAMPLE_RATE)) / (seconds * SAMPLE_RATE)) ** 2
    return (tone(hertz, seconds) * (0.02 + 0.98 * swell)).astype(np.float32)


@pytest.mark.parametrize(("count", "seconds"), [(3, 1.0), (10, 2.0), (12, 4.0)])
def test_syllables_are_counted_per_second_of_speech(count: int, seconds: float) -> None:
    samples = syllables(count, seconds)
    speaking = speech_activity(samples).speaking_s
    assert measure(samples, SAMPLE_RATE).rate_per_s == pytest.approx(count / speaking, rel=0.02)


def test_figures_have_their_units() -> None:
    glide = np.geomspace(100, 200, 2 * SAMPLE_RATE)
    samples = 0.2 * np.sin(2 * np.pi * np.cumsum(glide) / SAMPLE_RATE).astype(np.float32)
    found = measure(samples, SAMPLE_RATE, recording_dbfs=-20.0)
    assert found.f0_median_hz == pytest.approx(141, rel=0.02)
    assert found.f0_range_st == pytest.approx(0.8 * 12, abs=0.3)
    assert found.level_dbfs == pytest.approx(-17.0, abs=0.1)
    assert found.level_relative_db == pytest.approx(3.0, abs=0.1)
    assert found.pause_share == 0.0


def test_another_sampling_rate_measures_the_same() -> None:
    samples = syllables(6, 2.0)
    ours, other = measure(samples, SAMPLE_RATE), measure(soxr.resample(samples, SAMPLE_RATE, 24_000), 24_000)
    assert other.f0_median_hz == pytest.approx(ours.f0_median_hz, rel=0.01)
    assert other.rate_per_s == pytest.approx(ours.rate_per_s, rel=0.02)
    assert other.level_dbfs == pytest.approx(ours.level_dbfs, abs=0.2)


def test_a_constant_offset_is_no_sound() -> None:
    samples = syllables(6, 2.0)
    assert measure(samples + 0.3, SAMPLE_RATE).level_dbfs == measure(samples, SAMPLE_RATE).level_dbfs


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.02, 0.1, 1.0])
def test_what_cannot_be_measured_is_none(seconds: float) -> None:
    length = round(seconds * SAMPLE_RATE)
    assert measure(np.zeros(length, np.float32), SAMPLE_RATE) == Measured()
    noise = 0.1 * np.random.default_rng(0).standard_normal(length).astype(np.float32)
    found = measure(noise, SAMPLE_RATE)
    assert (found.f0_median_hz, found.f0_range_st, found.rate_per_s) == (None, None, None)
    assert (found.level_dbfs is None) == (seconds < 0.04)


@pytest.mark.data
def test_figures_agree_with_the_table(data: Path) -> None:
    rows = [row for row in read_rows(data) if row.measures.rate_syl_s][::300]
    found = [(row.measures, measure(read_audio(data / row.file), SAMPLE_RATE)) for row in rows]
    assert np.median([abs(ours.level_dbfs - known.level_dbfs) for known, ours in found]) < 0.2
    paused = [abs(ours.pause_share - known.pause_ratio) for known, ours in found if ours.pause_share is not None]
    assert np.quantile(paused, 0.9) < 0.05
    assert np.median([abs(ours.f0_median_hz / known.f0_hz - 1) for known, ours in found if ours.f0_median_hz]) < 0.01
    rates = np.array([(known.rate_syl_s, ours.rate_per_s) for known, ours in found if ours.rate_per_s is not None])
    assert np.corrcoef(rates.T)[0, 1] > 0.6
    assert abs(np.diff(rates).mean()) < 0.6
