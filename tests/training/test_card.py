"""The card's text comes from the figures: dev and report speakers, and what each side is weakest at."""

from __future__ import annotations

from typing import Any

import pytest

from training.card import model_card
from training.labels import PROSODY, REPORT_SPEAKERS


def _figures(emotion: float, weak: str) -> dict[str, Any]:
    shares = {name: 70.0 if name == weak else 90.0 for name in PROSODY}
    summary = {
        "clips": 10,
        "well_formed": 100.0,
        "emotion_mean": emotion,
        "emotion": {"nemo": emotion},
        "prosody": shares,
        "mean_of_seven": 80.0,
        "majority": dict.fromkeys(PROSODY, 60.0),
    }
    split = {"zh": summary, "en": summary}
    return {"dev": split, "report": split, "well_formed_by_duration_s": {"1": 99.0}, "step_ms": 0.5}


@pytest.mark.parametrize("report", [True, False])
def test_every_split_that_was_measured_has_its_table(report: bool) -> None:
    results = {"edge": _figures(66.1, "range"), "cloud": _figures(82.2, "rate")}
    if not report:
        for figures in results.values():
            del figures["report"]
    card = model_card(results)
    assert card.count("| emotion, mean of corpora | 66.1 | 66.1 | 82.2 | 82.2 |") == 1 + report
    assert ("| report speakers |" in card) == report
    assert "- The edge gains least on range: 70.0%, where the commonest class is 60.0%." in card
    assert "- The cloud gains least on rate:" in card
    assert all(speaker in card for speaker in REPORT_SPEAKERS)
