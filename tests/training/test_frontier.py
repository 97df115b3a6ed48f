"""The tables of gap closed at given costs: linear between settings, in pairs, in Markdown."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.metrics.frontier import constant
from specdec_cli.tune.candidates import Candidate
from specdec_cli.tune.frontier import Outcome
from training.frontier import between, curve_table

CLIPS = 120
ONCE = np.ones(CLIPS)


def test_between_two_settings_gains_are_linear() -> None:
    settings = [(constant(0.4), constant(0.8)), (constant(0.2), constant(0.5))]
    for share, gained in ((0.0, 0.0), (0.1, 0.25), (0.2, 0.5), (0.3, 0.65), (0.4, 0.8)):
        assert float(between(settings, share)(ONCE)) == pytest.approx(gained)
    assert np.isnan(between(settings, 0.5)(ONCE))
    assert between(settings, 0.3)(np.ones((7, CLIPS))).shape == (7,)


def test_a_gate_above_the_one_before_it_is_bold() -> None:
    rng = np.random.default_rng(0)
    edge, cloud = (rng.random((CLIPS, 1)) < 0.4).astype(float), np.ones((CLIPS, 1))
    wrong = edge[:, 0] == 0

    def outcome(escalated: object) -> Outcome:
        asked = np.asarray(escalated, float)
        quality = np.where(asked[:, None] > 0, cloud, edge)
        return Outcome(Candidate("entropy", 1.0, 2), quality, np.full(CLIPS, 10.0), asked, confirmed=False)

    sharp = [outcome(wrong & (rng.random(CLIPS) < part)) for part in (0.3, 0.6, 1.0)]
    blind = [outcome(rng.random(CLIPS) < part) for part in (0.2, 0.4, 0.8)]
    lines = list(
        curve_table("emotion", {"random": blind, "sharp": sharp}, edge, cloud, None, "clips", (0.2, 0.4, 0.95))
    )
    assert lines[0] == "| emotion, clips | 20% | 40% | 95% |"
    assert lines[2].startswith("| random | ")
    assert "**" not in lines[2]
    sharpest = lines[3].split(" | ")
    assert sharpest[1].startswith("**3")
    assert sharpest[-1] == "- |"  # no setting of this gate wakes so many
