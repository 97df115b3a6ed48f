"""The frontier picture: where things are drawn, what is said of them, and that names cannot break it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from specdec_cli.metrics.bootstrap import Interval
from specdec_cli.report.frontier import FrontierPoint, frontier_file, frontier_svg

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Share(Interval):
    low: float | None = None
    high: float | None = None


class Point(FrontierPoint):
    def __init__(self, label: str, gate: str, blocks: float, closed: Share | None, confirmed: bool = True) -> None:
        super().__init__(label, gate, {"blocks": blocks, "clips": min(3 * blocks, 1.0)}, closed, confirmed)


def drawn(*points: Point, title: str = "Frontier") -> ElementTree.Element:
    return ElementTree.fromstring(frontier_svg(points, title=title))


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def signs(picture: ElementTree.Element) -> list[tuple[float, float]]:
    """Where the points are drawn."""
    paths = picture.findall(f"{SVG}g[{SVG}title]/{SVG}path")
    places = [re.findall(r"[-.\d]+", path.attrib["transform"]) for path in paths]
    return [(float(x), float(y)) for x, y in places]


def test_more_escalation_is_further_right_and_more_gap_higher() -> None:
    picture = drawn(Point("a", "entropy", 0.1, Share(0.2)), Point("b", "entropy", 0.5, Share(0.9)))
    (x1, y1), (x2, y2) = signs(picture)
    assert x1 < x2
    assert y1 > y2


def test_points_at_the_ends_of_the_gap_lie_on_the_diagonal() -> None:
    picture = drawn(
        Point("edge", "g", 0.0, Share(0.0)), Point("half", "g", 0.5, Share(0.5)), Point("all", "g", 1.0, Share(1.0))
    )
    (x1, y1), (x2, y2), (x3, y3) = signs(picture)
    assert (x2, y2) == pytest.approx(((x1 + x3) / 2, (y1 + y3) / 2), abs=0.1)
    dashed = next(path for path in picture.iter(f"{SVG}path") if "stroke-dasharray" in path.attrib)
    assert dashed.attrib["d"] == f"M{x1:.1f} {y1:.1f}L{x3:.1f} {y3:.1f}"


def test_intervals_are_drawn_where_there_are_any() -> None:
    def bars(share: Share) -> int:
        picture = drawn(Point("a", "g", 0.2, share))
        return sum("V" in path.attrib["d"] and "h8" in path.attrib["d"] for path in picture.iter(f"{SVG}path"))

    assert bars(Share(0.5, 0.3, 0.6)) == 1
    assert bars(Share(0.5)) == 0


def test_what_was_not_measured_is_left_out_and_what_was_estimated_is_hollow() -> None:
    picture = drawn(
        Point("gone", "g", 0.3, None),
        Point("sure", "g", 0.1, Share(0.5)),
        Point("guess", "g", 0.2, Share(0.6), confirmed=False),
    )
    assert "gone" not in texts(picture)
    fills = [path.attrib["class"].split()[0] for path in picture.findall(f"{SVG}g[{SVG}title]/{SVG}path")]
    assert fills == ["f-c", "f-hollow"]
    assert any("not yet confirmed" in text for text in texts(picture))


def test_values_far_outside_stay_inside_the_picture() -> None:
    picture = drawn(Point("wild", "g", 1.0, Share(9.0, -7.0, 30.0)))
    (x, y), width, height = signs(picture)[0], *map(float, picture.attrib["viewBox"].split()[2:])
    assert 0 < x < width
    assert 0 < y < height


def test_gates_have_a_legend_and_points_in_one_place_share_a_name() -> None:
    many = [Point(f"{gate} {n}", gate, 0.1 * n, Share(0.2 * n)) for gate in ("entropy", "learned") for n in (1, 2)]
    found = texts(drawn(*many))
    assert {"entropy", "learned"} <= set(found)
    assert "entropy 1, learned 1" in found


def test_names_do_not_overlap() -> None:
    crowd = [Point(f"setting number {n}", f"gate {n}", 0.02 * n, Share(0.5 + 0.01 * n)) for n in range(12)]
    boxes = []
    for text in drawn(*crowd).iter(f"{SVG}text"):
        name = "".join(text.itertext())
        if name.startswith("setting"):
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
            boxes.append((x, y - 12, x + 7 * len(name), y + 2))
    assert len(boxes) >= 3
    for index, a in enumerate(boxes):
        assert not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for b in boxes[:index])


def test_markup_in_names_is_text() -> None:
    evil = '</svg><script>alert("1")</script>&'
    picture = drawn(Point(evil, evil, 0.1, Share(0.9)), Point("b", evil, 0.4, Share(0.6)), title=evil)
    assert not list(picture.iter(f"{SVG}script"))
    assert texts(picture).count(evil) == 2
    assert evil in ["".join(title.itertext()) for title in picture.iter(f"{SVG}title")]


def test_nothing_measured_still_makes_a_picture() -> None:
    picture = drawn()
    assert not signs(picture)
    assert "".join(next(picture.iter(f"{SVG}desc")).itertext()) == "No setting was measured."


def test_the_picture_says_in_words_what_it_shows() -> None:
    picture = drawn(Point("hybrid", "g", 0.142, Share(0.71, 0.42, 0.95)))
    said = "".join(next(picture.iter(f"{SVG}desc")).itertext())
    assert said == "hybrid: 14.2% of blocks escalated, 71% of the gap closed (42 to 95)."


def test_the_ends_of_the_gap_are_named_and_a_long_title_fits() -> None:
    title = "Gap closed: classes of all attributes, by the cloud's captions"
    picture = drawn(Point("edge", "edge", 0.0, Share(0.0)), Point("cloud", "cloud", 1.0, Share(1.0)), title=title)
    assert {"edge", "cloud"} <= set(texts(picture))
    heading = next(text for text in picture.iter(f"{SVG}text") if text.text == title)
    assert float(heading.attrib["x"]) + 0.5 * len(title) * float(heading.attrib["font-size"]) < 380


def test_each_cost_that_was_measured_has_a_panel_in_a_file() -> None:
    points = Point("a", "g", 0.1, Share(0.4)), Point("b", "g", 0.2, Share(0.7))
    oracles = {"clips": [(0.0, 0.0), (0.2, 1.0), (0.3, 1.4)]}
    picture = ElementTree.fromstring(frontier_file(points, title="50 clips", oracles=oracles))  # type: ignore[arg-type]
    panels = picture.findall(f"{SVG}svg")
    assert [panel.attrib["x"] for panel in panels] == ["0", "390"]
    assert ["oracle" in texts(panel) for panel in panels] == [False, True]
    assert {"blocks escalated, %", "clips that wake the cloud, %"} <= set(texts(picture))
    described = ["".join(text.itertext()) for text in picture.iter(f"{SVG}desc")]
    assert "a: 30.0% of clips wake the cloud, 40% of the gap closed." in described[1]
    wide, narrow = (float(picture.attrib["width"]), [float(panel.attrib["width"]) for panel in panels])
    assert wide > sum(narrow)
