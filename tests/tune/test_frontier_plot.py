"""The frontier picture: where things are drawn, what is said of them, and that names cannot break it."""

import re
from dataclasses import dataclass, replace
from xml.etree import ElementTree

import pytest

from specdec_cli.tune.frontier_plot import frontier
from specdec_cli.types import Cost, Interval

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Point:
    label: str
    gate: str
    spent: dict[Cost, float | None]
    gain: Interval


GAP = Interval(0.1, 0.05, 0.15)


def point(gate: str, blocks: float | None, gain: float, ends: tuple[float, float] | None = None) -> Point:
    return Point(gate, gate, {"blocks": blocks}, Interval(gain, *(ends or (None, None))))


def drawn(*points: Point, title: str = "Frontier", gap: Interval = GAP) -> ElementTree.Element:
    return ElementTree.fromstring(frontier(points, gap, what="emotion", title=title))


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def signs(picture: ElementTree.Element, fill: str) -> list[tuple[float, float]]:
    """Where signs of one colour are drawn in the panel; the legend has the last."""
    found = [use for use in picture.iter(f"{SVG}use") if f"fill: {fill}" in use.attrib.get("style", "")]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in found if "x" in use.attrib]


def test_the_ends_of_the_gap_lie_on_the_diagonal_and_more_is_further_right_and_higher():
    picture = drawn(point("g", 0.0, 0.0), point("g", 0.5, 0.05), point("g", 1.0, 0.1))
    (x1, y1), (x2, y2), (x3, y3) = signs(picture, "#0b5cad")[:3]
    assert x1 < x2 < x3
    assert y1 > y2 > y3
    assert (x2, y2) == pytest.approx(((x1 + x3) / 2, (y1 + y3) / 2), abs=0.1)
    dashed = next(path for path in picture.iter(f"{SVG}path") if "stroke-dasharray" in path.attrib.get("style", ""))
    ends = [float(figure) for figure in re.findall(r"-?\d+\.?\d*", dashed.attrib["d"])]
    assert ends == pytest.approx([x1, y1, x3, y3], abs=0.1)


def test_what_was_not_measured_is_left_out():
    found = texts(drawn(point("gone", None, 0.3), point("sure", 0.1, 9.0, (-7.0, 30.0))))  # far outside of the panel
    assert "gone" not in found
    assert {"sure", "calls at random", "blocks that the cloud verifies, %"} <= {*found}
    assert "clips that call the cloud, %" not in found


def test_names_are_text_and_overlap_nothing_for_they_stand_in_the_legend():
    evil = '</svg><script>alert("1")</script>&$x$'
    picture = drawn(point(evil, 0.1, 0.9), point("b", 0.4, 0.6), title=evil)
    assert not list(picture.iter(f"{SVG}script"))
    assert texts(picture).count(evil) == 2


def test_each_cost_that_was_measured_has_a_panel():
    one = point("a", 0.1, 0.4)
    picture = ElementTree.fromstring(
        frontier([replace(one, spent={"blocks": 0.1, "clips": 0.3})], GAP, what="emotion", title="t")
    )
    assert {"blocks that the cloud verifies, %", "clips that call the cloud, %"} <= {*texts(picture)}
    assert float(picture.attrib["width"][:-2]) > 1.3 * float(drawn(one).attrib["width"][:-2])


def test_a_cost_that_random_calls_alone_spend_has_no_panel():
    deferred = replace(point("a", None, 0.4), spent={"blocks": None, "clips": 0.3})
    control = replace(point("random", 0.1, 0.0), spent={"blocks": 0.1, "clips": 0.3})
    found = texts(drawn(deferred, control))
    assert "clips that call the cloud, %" in found
    assert "blocks that the cloud verifies, %" not in found


@pytest.mark.slow
def test_other_formats_are_images():
    point_ = point("a", 0.1, 0.4)
    assert frontier([point_], GAP, what="emotion", title="t", kind="png").startswith(b"\x89PNG")
    assert frontier([point_], GAP, what="emotion", title="t", kind="pdf").startswith(b"%PDF")


def test_settings_are_drawn_also_where_the_cloud_is_no_better():
    """As where nothing is recommended: a share of a gap that is none could not be drawn."""
    picture = drawn(
        point("a", 0.2, -0.01, (-0.05, 0.03)), point("a", 0.6, 0.02, (-0.03, 0.06)), gap=Interval(0.0, -0.1, 0.1)
    )
    assert len(signs(picture, "#0b5cad")) >= 2
    assert {"edge alone", "cloud alone", "(emotion; bars: 95% intervals)"} <= {*texts(picture)}
