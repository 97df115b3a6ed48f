"""A comparison's figures as text: units and plurals."""

import pytest

from specdec_cli import format as figures
from specdec_cli import times
from specdec_cli.figure_tables import Cell, measured
from specdec_cli.types import Interval, Measured


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (figures.count(1, "clip"), "1 clip"),
        (figures.count(1200, "clip"), "1,200 clips"),
        (times.seconds(144.0), "2 min 24 s"),
        (times.seconds(119.99), "2 min 00 s"),
        (times.seconds(12000.0), "3 h 20 min"),
        (times.seconds(0.834), "0.83 s"),
        (times.milliseconds(9.97), "10 ms"),
        (figures.short(1234.5), "1,234"),
        (figures.volume(1400), "1.4 kB"),
        (figures.share(None), "—"),
        (figures.interval(Interval(value=0.1, low=-0.05, high=0.2), figures.points), "-5.0 to +20.0"),
        (figures.interval(Interval(value=0.1, low=0.05, high=0.2), figures.percent), "5–20%"),
        (figures.interval(Interval(value=0.1, low=None, high=None)), ""),
    ],
)
def test_figures_have_units_and_plurals(written, text):
    assert written == text


def test_a_cell_has_the_figure_and_the_ends_of_its_interval():
    assert measured(Interval(value=0.842, low=0.62, high=1.03)) == Cell("84.2%", "62–103%")
    assert measured(Interval(value=0.5, low=None, high=None)) == measured(0.5) == Cell("50.0%")
    assert measured(3, figures.whole) == Cell("3")
    assert measured(None) == Cell("—")


def test_what_cannot_be_measured_is_named_once():
    voice = Measured(f0_median_hz=158.3, f0_range_st=None, level_dbfs=-26.0, rate_per_s=4.5, pause_share=None)
    assert figures.measured(voice)[-2:] == ["4.50 syllables/s", "not measurable: range, pauses"]
    whisper = Measured(f0_median_hz=None, f0_range_st=None, level_dbfs=-40.0, rate_per_s=None, pause_share=0.1)
    assert figures.measured(whisper) == ["unvoiced", "level -40.0 dBFS", "pauses 10.0%", "not measurable: rate"]
    assert figures.measured(Measured()) == ["unvoiced"]
