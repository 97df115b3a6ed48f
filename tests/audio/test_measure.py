"""Measured figures of sounds whose values are known, and beside the table's and Praat's."""

import numpy as np
import pytest
import soxr

from specdec_cli.audio.prosody import (
    _LAGS,
    F0_RANGE_HZ,
    HOP,
    SAMPLE_RATE,
    _contour_and_band,
    _strongest,
    f0_contour,
    f0_median_and_range,
    measure,
    speech_activity,
)
from specdec_cli.types import Measured
from tests.audio.encode import load_audio
from tests.mini_pair import voice
from tests.training.conftest import tone


def syllables(count: int, seconds: float) -> np.ndarray:
    """A voiced sound that swells `count` times."""
    swell = np.sin(np.pi * count * np.arange(round(seconds * SAMPLE_RATE)) / (seconds * SAMPLE_RATE)) ** 2
    return (tone(150.0, seconds) * (0.02 + 0.98 * swell)).astype(np.float32)


@pytest.mark.parametrize(("below_db", "share"), [(30.0, None), (60.0, 0.4)])
def test_no_share_of_pauses_is_given_where_noise_lies_at_the_limit(below_db, share):
    """Frames of noise would count as speech or as a pause by chance."""
    voiced = tone(150, 0.5)
    clean = np.concatenate([voiced, 0 * voiced, voiced, 0 * voiced, voiced])
    noise_level = float(np.sqrt(np.square(voiced).mean())) * 10 ** (-below_db / 20)
    noise = np.random.default_rng(0).normal(0.0, noise_level, len(clean)).astype(np.float32)
    assert measure(clean + noise, SAMPLE_RATE).pause_share == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("gap_s", "share", "hz"), [(0.5, 0.2, 80), (0.15, 0.0, 120), (0.5, 0.2, 210), (0.5, 0.2, 380)])
def test_level_pauses_and_pitch_of_two_tones(gap_s, share, hz):
    gap = np.zeros(int(gap_s * SAMPLE_RATE), np.float32)
    found = measure(np.concatenate([tone(hz, 1.0, -25.0), gap, tone(hz, 1.0, -25.0)]), SAMPLE_RATE)
    assert found.level_dbfs == pytest.approx(-25.0, abs=0.1)
    assert found.pause_share == pytest.approx(share, abs=0.01)
    assert found.f0_median_hz == pytest.approx(hz, rel=0.03)
    assert found.f0_range_st == pytest.approx(0.0, abs=1.0)


def test_a_maximum_as_flat_as_float32_can_tell_has_a_pitch():
    """Its curvature is rounded to 0 where the middle is subtracted twice."""
    correlation = np.zeros((1, len(_LAGS)), np.float32)
    correlation[0, 59:62] = np.nextafter(np.float32(1), np.float32(0)), 1, 1
    strength, octaves = _strongest(correlation)
    assert strength[0, 0] == pytest.approx(1, abs=0.1)
    assert 2 ** octaves[0, 0] == pytest.approx(SAMPLE_RATE / (_LAGS[60] + 0.5), rel=1e-4)


def test_a_contour_has_a_value_or_nan_for_every_10_ms_or_as_often_as_wanted():
    contour = f0_contour(np.concatenate([tone(180, 1.0), np.zeros(SAMPLE_RATE, np.float32)]))
    assert len(contour) == pytest.approx(200, abs=5)
    assert np.nanmedian(contour[:90]) == pytest.approx(180, rel=0.02)
    assert np.isnan(contour[105:]).all()
    fine, coarse = f0_contour(voice(5, 2.0)), f0_contour(voice(5, 2.0), 640)
    both = ~np.isnan(coarse) & ~np.isnan(fine[::4])
    assert both.sum() > 20
    assert np.median(np.abs(np.log2(coarse[both] / fine[::4][both]))) < 0.01


@pytest.mark.parametrize(("count", "seconds"), [(3, 1.0), (10, 2.0), (12, 4.0)])
def test_syllables_are_counted_per_second_of_speech(count, seconds):
    samples = syllables(count, seconds)
    speaking_s = speech_activity(samples).speaking_s
    assert measure(samples, SAMPLE_RATE).rate_per_s == pytest.approx(count / speaking_s, rel=0.02)


@pytest.mark.parametrize(("noise_db", "known"), [(-60.0, True), (5.0, False)])
def test_no_rate_is_given_where_noise_hides_the_syllables(noise_db, known):
    """Noise counts as active, so that few syllables over a long time would look like a slow voice."""
    voiced = np.concatenate([syllables(3, 0.6), np.zeros(3 * SAMPLE_RATE, np.float32), syllables(3, 0.6)])
    noise = np.random.default_rng(0).normal(0.0, voiced.std() * 10 ** (noise_db / 20), len(voiced)).astype(np.float32)
    found = measure(voiced + noise, SAMPLE_RATE)
    assert found.f0_median_hz == pytest.approx(150.0, rel=0.03)
    assert (found.rate_per_s is not None) == known


@pytest.mark.slow
def test_the_power_within_the_band_is_the_one_of_librosas_spectrum():
    librosa = pytest.importorskip("librosa")
    samples = voice(5, 2.0)
    frames = {"n_fft": 1000, "win_length": 736, "window": np.hanning(736), "hop_length": HOP, "center": False}
    theirs = np.square(np.abs(librosa.stft(np.pad(samples, (132, 1000)), **frames)))[31:156].sum(axis=0)
    _, ours = _contour_and_band(samples)
    assert ours == pytest.approx(theirs[: len(ours)], rel=1e-3, abs=1e-4 * float(theirs.max()))


def test_figures_have_their_units():
    glide = np.geomspace(100, 200, 2 * SAMPLE_RATE)
    samples = 0.2 * np.sin(2 * np.pi * np.cumsum(glide) / SAMPLE_RATE).astype(np.float32)
    found = measure(samples, SAMPLE_RATE, recording_dbfs=-20.0)
    assert found.f0_median_hz == pytest.approx(141, rel=0.02)
    assert found.f0_range_st == pytest.approx(0.8 * 12, abs=0.3)
    assert found.level_dbfs == pytest.approx(-17.0, abs=0.1)
    assert found.level_relative_db == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("share", "range_st"), [(0.02, 0.0), (0.1, None), (0.4, 12.0)])
def test_no_range_is_given_that_a_few_frames_an_octave_off_decide(share, range_st):
    samples = np.concatenate([tone(150, 4 * (1 - share)), tone(300, 4 * share)])
    assert measure(samples, SAMPLE_RATE).f0_range_st == pytest.approx(range_st, abs=0.3)
    assert measure(samples, SAMPLE_RATE).f0_median_hz == pytest.approx(150, rel=0.01)


def test_another_sampling_rate_or_a_constant_offset_changes_nothing():
    samples = syllables(6, 2.0)
    ours, other = measure(samples, SAMPLE_RATE), measure(soxr.resample(samples, SAMPLE_RATE, 24_000), 24_000)
    assert other.f0_median_hz == pytest.approx(ours.f0_median_hz, rel=0.01)
    assert other.rate_per_s == pytest.approx(ours.rate_per_s, rel=0.02)
    assert other.level_dbfs == pytest.approx(ours.level_dbfs, abs=0.2)
    assert measure(samples + 0.3, SAMPLE_RATE).level_dbfs == ours.level_dbfs


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.02, 0.1, 1.0])
def test_what_cannot_be_measured_is_none(seconds):
    length = round(seconds * SAMPLE_RATE)
    assert measure(np.zeros(length, np.float32), SAMPLE_RATE) == Measured()
    noise = 0.1 * np.random.default_rng(0).standard_normal(length).astype(np.float32)
    found = measure(noise, SAMPLE_RATE)
    assert (found.f0_median_hz, found.f0_range_st, found.rate_per_s) == (None, None, None)
    assert (found.level_dbfs is None) == (seconds < 0.04)


def test_the_samples_have_the_pitch_that_praat_finds(samples):
    parselmouth = pytest.importorskip("parselmouth", reason="needs praat-parselmouth")
    low, high = F0_RANGE_HZ
    for file in sorted(samples.glob("*.flac")):
        clip, _ = load_audio(file)
        sound = parselmouth.Sound(clip.astype(np.float64), SAMPLE_RATE)
        track = sound.to_pitch_ac(time_step=0.01, pitch_floor=low, pitch_ceiling=high).selected_array["frequency"]
        theirs, ours = f0_median_and_range(track[track > 0]), f0_median_and_range(f0_contour(clip))
        assert ours[0] == pytest.approx(theirs[0], rel=0.03)
        assert ours[1] == pytest.approx(theirs[1], abs=1.5)
