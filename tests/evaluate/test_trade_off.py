"""Quality against time, as a picture: where modes stand, and what it shows where little is known."""

import pytest

from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.result import Comparison
from specdec_cli.evaluate.trade_off import HEIGHT, Panel, panels
from specdec_cli.labels import Lexicon
from specdec_cli.types import Mode
from tests.evaluate.fabricate import made

MS: dict[Mode, float] = {"edge": 100.0, "hybrid": 250.0, "lossless": 400.0, "cloud": 500.0}
RIGHT: dict[Mode, int] = {"edge": 3, "hybrid": 8, "lossless": 12, "cloud": 12}


def compared(*modes: Mode, clips: int = 12, ms: dict[Mode, float] = MS, right: dict[Mode, int] = RIGHT) -> Comparison:
    """Each mode as good as it takes long, by the cloud's own classes."""
    runs = [
        made(f"c{index}", mode, f"He sounds {'sad' if index < right[mode] else 'happy'}.", ms=ms[mode] + index % 3)
        for index in range(clips)
        for mode in modes
    ]
    return comparison(runs, Lexicon.read())


def panel(*modes: Mode) -> Panel:
    (found,) = panels(compared(*modes))
    return found


def test_more_time_is_further_right_and_better_is_higher():
    found = panel("edge", "hybrid", "lossless", "cloud")
    at = {point.mode: (point.x, point.y) for point in found.points}
    assert at["edge"][0] < at["hybrid"][0] < at["lossless"][0] < at["cloud"][0]
    assert at["edge"][1] > at["hybrid"][1] > at["lossless"][1] == at["cloud"][1]
    assert found.at_random == (at["edge"], at["cloud"])
    zero, full = (next(x for x, text in found.x_ticks if text == name) for name in ("0%", "100%"))
    assert at["cloud"][0] == pytest.approx(full)
    assert at["hybrid"][0] == pytest.approx(zero + (full - zero) * 0.5, abs=0.2)
    assert "hybrid: 83.3% (" in found.points[1].said
    assert "at 50% (50% to 50%) of cloud-only's time" in found.points[1].said
    assert "100%" in [text for _, text in found.y_ticks]  # which is the cloud's here


def test_everything_lies_within_the_picture_and_names_do_not_overlap():
    found = panel("edge", "hybrid", "lossless", "cloud")
    for point in found.points:
        assert all(0 <= x <= 100 for x in (point.x, *point.across))
        assert all(0 <= y <= HEIGHT for y in (point.y, *point.along))
        assert point.across[0] <= point.x <= point.across[1]
        assert point.along[1] <= point.y <= point.along[0]  # higher is fewer pixels from the top
    assert 2 <= len(found.x_ticks) <= 8
    assert 2 <= len(found.y_ticks) <= 8
    assert all(point.apart(found.points[:number]) for number, point in enumerate(found.points))
    assert all(0 <= place <= 100 for point in found.points for place in point.name[:2])


def test_a_name_moves_to_the_other_side_where_two_names_stand_already():
    ms: dict[Mode, float] = {"edge": 490.0, "hybrid": 495.0, "lossless": 505.0, "cloud": 500.0}
    (found,) = panels(compared("edge", "hybrid", "lossless", "cloud", ms=ms, right=dict.fromkeys(ms, 12)))
    assert {(point.left, point.below) for point in found.points[:2]} == {(True, False), (True, True)}


def test_without_the_cloud_there_is_nothing_to_measure_quality_by():
    assert panels(compared("edge", "hybrid")) == []
    assert compared("edge", "hybrid").headline == []


@pytest.mark.parametrize("clips", [1, 2, 12])
def test_few_clips_without_intervals_are_drawn_as_well(clips):
    (found,) = panels(compared("edge", "cloud", clips=clips, ms={"edge": 10.0, "cloud": 10.0}))
    assert len(found.points) == 2


def test_few_clips_make_no_sentence():
    assert not any("takes" in sentence for sentence in compared("edge", "hybrid", "cloud", clips=9).headline)
