"""The frontier picture: where things are drawn, what is said of them, and that names cannot break it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.frontier import FrontierPoint
from specdec_cli.plot.frontier_plot import describe, frontier

SVG = "{http://www.w3.org/2000/svg}"


def point(
    gate: str, blocks: float, closed: float | None, ends: tuple[float, float] | None = None, *, run: bool = True
) -> FrontierPoint:
    gap = None if closed is None else Interval(closed, *(ends or (None, None)))
    return FrontierPoint(gate, gate, {"blocks": blocks, "clips": min(3 * blocks, 1.0)}, gap, run)


def drawn(*points: FrontierPoint, title: str = "Frontier") -> ElementTree.Element:
    return ElementTree.fromstring(frontier(points, title=title, costs=["blocks"]))


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def signs(picture: ElementTree.Element, fill: str) -> list[tuple[float, float]]:
    """Where signs of one colour are drawn in the panel; the legend has the last."""
    found = [use for use in picture.iter(f"{SVG}use") if f"fill: {fill}" in use.attrib.get("style", "")]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in found if "x" in use.attrib]


def test_the_ends_of_the_gap_lie_on_the_diagonal_and_more_is_further_right_and_higher() -> None:
    picture = drawn(point("g", 0.0, 0.0), point("g", 0.5, 0.5), point("g", 1.0, 1.0))
    (x1, y1), (x2, y2), (x3, y3) = signs(picture, "#0b5cad")[:3]
    assert x1 < x2 < x3
    assert y1 > y2 > y3
    assert (x2, y2) == pytest.approx(((x1 + x3) / 2, (y1 + y3) / 2), abs=0.1)
    dashed = next(path for path in picture.iter(f"{SVG}path") if "stroke-dasharray" in path.attrib.get("style", ""))
    ends = [float(figure) for figure in re.findall(r"-?\d+\.?\d*", dashed.attrib["d"])]
    assert ends == pytest.approx([x1, y1, x3, y3], abs=0.1)


def test_what_was_not_measured_is_left_out_and_what_was_estimated_is_hollow() -> None:
    picture = drawn(point("gone", 0.3, None), point("sure", 0.1, 0.5), point("guess", 0.2, 0.6, run=False))
    assert "gone" not in texts(picture)
    assert {"sure", "guess", "hollow: estimated", "at random"} <= {*texts(picture)}
    assert len(signs(picture, "#ffffff")) == 2  # one of them in the legend


def test_values_far_outside_stay_inside_the_picture() -> None:
    picture = drawn(point("wild", 1.0, 9.0, (-7.0, 30.0)))
    (x, y), width, height = signs(picture, "#0b5cad")[0], *map(float, picture.attrib["viewBox"].split()[2:])
    assert 0 < x < width
    assert 0 < y < height


def test_names_are_text_and_overlap_nothing_for_they_stand_in_the_legend() -> None:
    evil = '</svg><script>alert("1")</script>&$x$'
    picture = drawn(point(evil, 0.1, 0.9), point("b", 0.4, 0.6), title=evil)
    assert not list(picture.iter(f"{SVG}script"))
    assert texts(picture).count(evil) == 2


def test_the_picture_says_in_words_what_it_shows() -> None:
    assert describe([], ["blocks"]) == "No setting was measured."
    said = describe([point("hybrid", 0.142, 0.71, (0.42, 0.95))], ["blocks", "clips"])
    assert said.startswith(
        "hybrid: blocks escalated 14.2%, 71% of the gap closed (42 to 95). hybrid: clips calling the cloud 42.6%"
    )


def test_each_cost_that_was_measured_has_a_panel_and_the_oracle_is_drawn_in_its_own() -> None:
    points = point("a", 0.1, 0.4), point("b", 0.2, 0.7)
    one = frontier(points, title="50 clips", costs=["clips"])
    both = frontier(points, title="50 clips", oracles={"clips": [(0.0, 0.0), (0.2, 1.0), (0.3, 1.4)]})
    picture = ElementTree.fromstring(both)
    assert {"blocks escalated, %", "clips that call the cloud, %", "oracle"} <= {*texts(picture)}
    assert float(picture.attrib["width"][:-2]) > 1.5 * float(ElementTree.fromstring(one).attrib["width"][:-2])


def test_a_picture_follows_light_and_dark_and_other_formats_are_images() -> None:
    point_ = point("a", 0.1, 0.4)
    assert b"prefers-color-scheme: dark" in frontier([point_], title="t")
    assert frontier([point_], title="t", kind="png").startswith(b"\x89PNG")
    assert frontier([point_], title="t", kind="pdf").startswith(b"%PDF")
