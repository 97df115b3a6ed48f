"""Measured figures in the displays: lines among the totals, and which classes fit them in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from specdec_cli.types import Claim, Measured
from tests.console.screens import shown
from tests.console.script import EN, Clip

FIGURES = Measured(110.4, 6.23, -24.06, None, 3.1, 0.08)
CLAIMS = (
    Claim("rate", "fast", "rate_per_s", 3.1, 3.9, None),
    Claim("pitch", "low", "f0_median_hz", 110.4, None, 122.0),
    Claim("range", None, "f0_range_st", 6.23, None, None),
    Claim("volume", "loud", "level_dbfs", -24.06, -22.0, None),
    Claim("pauses", "few", "pause_share", 0.08, None, 0.15),
)


def measured(clip: Clip, figures: Measured, claims: tuple[Claim, ...] | None) -> Clip:
    *events, (finished, text) = clip.events
    return replace(
        clip,
        started=replace(clip.started, measured=figures),
        events=(*events, (finished, replace(text, claims=claims))),
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_figures_and_what_does_not_fit_them_stand_among_the_totals(width: int) -> None:
    screen = shown(measured(EN, FIGURES, CLAIMS), width)
    assert max(map(cell_len, screen.lines)) <= width
    words = " ".join(screen.output.split())
    assert "measured F0 110.4 Hz, range 6.23 st, level -24.1 dBFS, 3.10 syllables/s, pauses 8.0%" in words
    assert "agrees pitch, pauses" in words
    assert "differs rate fast, but 3.10 syllables/s (fast: 3.9 or more); volume loud, but -24.1 dBFS" in words
    assert words.count("(loud: -22 or more)") == 1


def test_an_unvoiced_clip_says_so_and_nothing_is_claimed() -> None:
    words = " ".join(shown(measured(EN, Measured(level_dbfs=-30.0), None), 100).output.split())
    assert "measured unvoiced, level -30.0 dBFS" in words
    assert "agrees" not in words
    assert " measured " not in shown(EN, 100).output
