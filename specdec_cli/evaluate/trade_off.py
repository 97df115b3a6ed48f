"""Pictures of quality against time: the place of each mode, in SVG that a template writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from specdec_cli.evaluate.result import Comparison, ModeQuality
from specdec_cli.format import percent, share, with_ends
from specdec_cli.types import Interval, Mode

HEIGHT: Final = 280  # of a picture, CSS pixels; its width is that of the page
_TICKS: Final = 6  # at most
_LETTER: Final = 2.6  # width of a letter of a name, % of the narrowest picture
_GAP: Final = 3.0  # between a point and its name, the same
_LINE: Final = 15.0  # height of a name, pixels


class Axis(NamedTuple):
    """Places of figures: % of the width from the left, or pixels from the top."""

    start: float  # place of `least`
    end: float  # place of `most`
    least: float
    most: float

    def place(self, value: float) -> float:
        """The place of a figure."""
        return round(self.start + (self.end - self.start) * (value - self.least) / (self.most - self.least), 2)

    def places(self, found: Interval) -> tuple[float, float]:
        """The places of the ends of an interval."""
        low, high = _ends(found)
        return self.place(low), self.place(high)

    def ticks(self, written: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
        """Round figures: the place of each, and how it is written."""
        rough = (self.most - self.least) / _TICKS
        ten = 10.0 ** math.floor(math.log10(rough))
        step = next(ten * times for times in (1, 2, 5, 10) if ten * times >= rough)
        first, last = math.ceil(round(self.least / step, 6)), math.floor(round(self.most / step, 6))
        figures = [round(step * number, 6) for number in range(first, last + 1)]
        return tuple((self.place(figure), written(figure)) for figure in figures)


@dataclass(frozen=True, slots=True)
class Placed:
    """A mode in the plane: x in % of the width, y in pixels; both ends are equal where there is no interval."""

    mode: Mode
    x: float
    y: float
    across: tuple[float, float]
    along: tuple[float, float]
    left: bool  # whether its name is left of it, else right
    below: bool  # whether its name is below it, else above
    said: str  # in words

    @property
    def name(self) -> tuple[float, float, float, float]:
        """The box of its name in the narrowest picture: left and right, %; top and bottom, pixels."""
        width, base = _GAP + _LETTER * len(self.mode), self.y + (18 if self.below else -9)
        start = self.x - width if self.left else self.x + _GAP
        return start, start + width - _GAP, base - _LINE, base

    def apart(self, others: Sequence[Placed]) -> bool:
        """Whether its name is inside the picture and overlaps none of theirs."""
        start, end, top, bottom = self.name
        return 0 <= start < end <= 100 and not any(
            start < their_end and their_start < end and top < their_bottom and their_top < bottom
            for their_start, their_end, their_top, their_bottom in (other.name for other in others)
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture: points with their intervals, and the lines of its axes with their figures."""

    title: str
    points: tuple[Placed, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    at_random: tuple[tuple[float, float], tuple[float, float]] | None  # edge-only and cloud-only


def panels(found: Comparison) -> list[Panel]:
    """The pictures of a comparison: none without cloud-only, of whose time each mode's is a share."""
    compared = "cloud" in found.modes and len(found.costs) > 1
    return [_panel(*measure, found) for measure in _measures(found.quality)] if compared else []


def _measures(of: Sequence[ModeQuality]) -> Iterator[tuple[str, dict[Mode, Interval]]]:
    """Title and quality of each picture: classes and emotion, or else texts, or else agreement with the cloud."""
    means = {each.mode: each.heard_mean for each in of if each.heard_mean}
    texts = {each.mode: _alone(each.text.chrf / 100) for each in of if each.text}
    if means:
        attributes = [*of[0].labels]
        if "emotion" in attributes:
            yield "Emotion named right", {each.mode: each.labels["emotion"].accuracy for each in of}
        if set(means) and attributes != ["emotion"]:
            yield "Heard attributes named right", means
    elif texts:
        yield "chrF with the references", texts
    else:
        yield "Classes equal to cloud-only's", {each.mode: each.same_labels or _alone(1.0) for each in of}


def _alone(value: float) -> Interval:
    return Interval(value, None, None)


def _panel(title: str, qualities: Mapping[Mode, Interval], found: Comparison) -> Panel:
    times = {each.mode: each.total_s.to_cloud or _alone(1.0) for each in found.costs}
    ends = [_ends(quality) for quality in qualities.values()]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    margin = 0.12 * max(most - least, 0.02)
    across = Axis(12.0, 94.0, 0.0, max(_ends(time)[1] for time in times.values()) * 1.02)
    along = Axis(236.0, 18.0, max(least - margin, 0.0), min(most + margin, 1.0))
    points: list[Placed] = []
    for mode, time in times.items():
        quality = qualities[mode]
        x, y = across.place(time.value), along.place(quality.value)
        said = f"{mode}: {with_ends(quality, share)} at {with_ends(time, percent)} of cloud-only's time"
        sides = [(left, below) for left in (x > 60, x <= 60) for below in (False, True)]
        placed = [Placed(mode, x, y, across.places(time), along.places(quality), *side, said) for side in sides]
        points.append(next((point for point in placed if point.apart(points)), placed[0]))
    at = {point.mode: (point.x, point.y) for point in points}
    return Panel(
        title=title,
        points=tuple(points),
        x_ticks=across.ticks(percent),
        y_ticks=along.ticks(lambda tick: f"{100 * tick:g}%"),
        at_random=(at["edge"], at["cloud"]) if "edge" in at else None,
    )


def _ends(found: Interval) -> tuple[float, float]:
    """The ends of an interval, with the figure itself between them."""
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return min(low, found.value), max(high, found.value)
