from __future__ import annotations

import math

import pytest

from specdec_cli.console.theme import ABOVE, ASCII, UNICODE
from specdec_cli.console.tokens import bars, level, threshold_of


@pytest.mark.parametrize("threshold", [0.01, 0.5, 1.2, 4.0])
def test_a_bar_reaches_half_height_exactly_where_the_gate_escalates(threshold: float) -> None:
    for step in range(400):
        value = threshold * step / 100
        assert (level(value, threshold) >= 4) == (value >= threshold)
    assert level(math.nextafter(threshold, 0), threshold) == 3


def test_bars_rise_with_entropy() -> None:
    for threshold in (None, 0.0, 1.2):
        heights = [level(value / 10, threshold) for value in range(60)]
        assert heights == sorted(heights)
        assert set(heights) <= set(range(8))


def test_one_bar_a_token_and_those_above_stand_out() -> None:
    text = bars((0.0, 1.19, 1.2, 9.0, math.inf, math.nan), 1.2, UNICODE)
    assert text.plain == "▁▄▅██?"
    assert [str(span.style) == ABOVE for span in text.spans] == [False, False, True, True, True, True]
    assert bars((0.0, 1.3), 1.2, ASCII).plain == ".+"


@pytest.mark.parametrize(
    ("settings", "threshold"),
    [
        ({"gate": "entropy", "threshold": 1.2}, 1.2),
        ({"gate": "entropy", "threshold": 2}, 2.0),
        ({"gate": "learned", "threshold": 0.3}, 0.3),
        ({"gate": "margin", "threshold": 0.1}, None),
        ({"gate": "entropy", "threshold": None}, None),
        ({}, None),
    ],
)
def test_only_gates_that_the_bars_show_have_a_threshold_there(
    settings: dict[str, object], threshold: float | None
) -> None:
    assert threshold_of(settings) == threshold
