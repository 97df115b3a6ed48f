"""A comparison's figures as text: units, plurals, and one yardstick for the headline and the picture."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli import format as figures
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.result import Comparison, Gap
from tests.pages.sample import Runs, comparison


@pytest.fixture(scope="module")
def found(runs: Runs) -> Comparison:
    return comparison(runs)


def gap(basis: Any, measure: Any, closed: float | None) -> Gap:
    none = Interval(value=0.1, low=0.05, high=0.2)
    share = None if closed is None else Interval(value=closed, low=0.1, high=0.9)
    ends = {"edge": 0.5, "value": 0.6, "cloud": 1.0, "gap": none, "gain": none}
    return Gap(mode="hybrid", basis=basis, measure=measure, clips=9, closed=share, **ends)


def test_the_picture_is_drawn_by_the_measure_that_the_headline_goes_by(found: Comparison) -> None:
    cloud = [gap("cloud", "captions", 0.4), gap("cloud", "labels", 0.9), gap("cloud", "chrf", 0.8)]
    title, points, _ = tables.frontier_points(found.model_copy(update={"gaps": cloud})) or ("", [], {})
    assert title == "Captions equal to the cloud's: share of the gap closed"
    assert [point.gap_closed and point.gap_closed.value for point in points] == [0.0, 0.4, 1.0]
    both = [*cloud, gap("references", "labels", None), gap("references", "emotion", 0.3)]
    title, _, _ = tables.frontier_points(found.model_copy(update={"gaps": both})) or ("", [], {})
    assert title == "Emotion named right: share of the gap closed"
    without = [*cloud, gap("references", "labels", None)]  # of which alone the headline speaks
    assert tables.frontier_points(found.model_copy(update={"gaps": without})) is None


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (figures.count(1, "clip"), "1 clip"),
        (figures.count(1200, "clip"), "1,200 clips"),
        (figures.seconds(144.0), "2 min 24 s"),
        (figures.seconds(119.99), "2 min 00 s"),
        (figures.seconds(12000.0), "3 h 20 min"),
        (figures.seconds(0.834), "0.83 s"),
        (figures.milliseconds(9.97), "10 ms"),
        (figures.short(1234.5), "1,234"),
        (figures.volume(1400), "1.4 kB"),
        (figures.share(None), "—"),
        (figures.interval(Interval(value=0.1, low=-0.05, high=0.2), figures.points), "-5.0 to +20.0"),
        (figures.interval(Interval(value=0.1, low=0.05, high=0.2), figures.percent), "5–20%"),
        (figures.interval(Interval(value=0.1, low=None, high=None)), ""),
    ],
)
def test_figures_have_units_and_plurals(written: str, text: str) -> None:
    assert written == text
