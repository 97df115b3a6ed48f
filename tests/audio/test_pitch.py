"""The F0 tracker on sounds whose pitch is known."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.audio import prosody
from tests.mini_pair import voice


def test_a_contour_has_a_value_or_nan_for_every_10_ms() -> None:
    t = np.arange(prosody.SAMPLE_RATE) / prosody.SAMPLE_RATE
    samples = np.concatenate([np.sin(2 * np.pi * 180 * t), np.zeros(prosody.SAMPLE_RATE)]).astype(np.float32)
    contour = prosody.f0_contour(samples)
    assert len(contour) == pytest.approx(200, abs=5)
    assert np.nanmedian(contour[:90]) == pytest.approx(180, rel=0.02)
    assert np.isnan(contour[105:]).all()


def test_a_coarser_contour_tells_the_same_pitch() -> None:
    samples = voice(5, 2.0)
    fine, coarse = prosody.f0_contour(samples), prosody.f0_contour(samples, 640)
    assert len(coarse) == -(-len(fine) // 4)
    both = ~np.isnan(coarse) & ~np.isnan(fine[::4])
    assert both.sum() > 20
    assert np.median(np.abs(np.log2(coarse[both] / fine[::4][both]))) < 0.01


def test_too_little_sound_has_no_frames() -> None:
    assert len(prosody.f0_contour(np.zeros(700, np.float32))) == 0
