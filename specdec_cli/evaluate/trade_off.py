"""Quality against time: where each mode stands, as a picture that needs no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from specdec_cli.evaluate.result import Comparison, ModeQuality
from specdec_cli.format import percent, share, with_ends
from specdec_cli.stats import Interval
from specdec_cli.times import seconds
from specdec_cli.types import Mode

HEIGHT: Final = 280  # of a picture, CSS pixels; its width is that of the page
_TICKS: Final = 6  # at most
_NEAR: Final = (16.0, 22.0)  # % and pixels within which two names would overlap


class Measure(NamedTuple):
    """A figure of quality that every mode has, 0 to 1."""

    name: str
    of: dict[Mode, Interval]


class Axis(NamedTuple):
    """Places of figures: % of the width from the left, or pixels from the top."""

    start: float  # place of `least`
    end: float  # place of `most`
    least: float
    most: float

    def place(self, value: float) -> float:
        """Where a figure stands."""
        return round(self.start + (self.end - self.start) * (value - self.least) / (self.most - self.least), 2)

    def places(self, found: Interval) -> tuple[float, float]:
        """Where the ends of an interval stand."""
        low, high = _ends(found)
        return self.place(low), self.place(high)

    def ticks(self, written: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
        """Places of round figures, with the figures."""
        rough = (self.most - self.least) / _TICKS
        ten = 10.0 ** math.floor(math.log10(rough))
        step = next(ten * times for times in (1, 2, 5, 10) if ten * times >= rough)
        first, last = math.ceil(round(self.least / step, 6)), math.floor(round(self.most / step, 6))
        figures = [round(step * number, 6) for number in range(first, last + 1)]
        return tuple((self.place(figure), written(figure)) for figure in figures)


@dataclass(frozen=True, slots=True)
class Placed:
    """A mode in the plane: x in % of the width, y in pixels; equal ends where there is no interval."""

    mode: Mode
    x: float
    y: float
    across: tuple[float, float]
    along: tuple[float, float]
    anchor: str  # where its name stands from it
    right: int  # pixels
    down: int
    said: str  # in words


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture: points with their intervals, and the lines of its axes with their figures."""

    title: str
    horizontal: str
    points: tuple[Placed, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    at_random: tuple[tuple[float, float], tuple[float, float]] | None  # edge-only and cloud-only


def measures(found: Comparison) -> list[Measure]:
    """What the picture shows, the leading one first: classes, and emotion beside them; texts; or those of the cloud."""
    of = found.quality
    if all(each.label_mean for each in of) and of:
        attributes = [*of[0].labels]
        if len(attributes) == 1:
            return [_measure(f"{attributes[0]} named right", of, lambda each: each.label_mean)]
        classes = f"classes named right, mean of {len(attributes)} attributes"
        first = _measure(classes, of, lambda each: each.label_mean)
        if "emotion" not in attributes:
            return [first]
        return [first, _measure("emotion named right", of, lambda each: each.labels["emotion"].accuracy)]
    if of and all(each.text for each in of):
        return [_measure("chrF with the references", of, lambda each: _alone(each.text and each.text.chrf / 100))]
    if of and "cloud" in found.modes:
        return [_measure("classes equal to cloud-only's", of, lambda each: each.same_labels or _alone(1.0))]
    return []


def _measure(name: str, of: Sequence[ModeQuality], figure: Callable[[ModeQuality], Interval | None]) -> Measure:
    return Measure(name, {each.mode: interval for each in of if (interval := figure(each))})


def _alone(value: float | None) -> Interval:
    return Interval(value or 0.0, None, None)


def panels(found: Comparison) -> list[Panel]:
    """The pictures of a comparison; none where there is nothing to set time against."""
    return [_panel(measure, found) for measure in measures(found)] if len(found.costs) > 1 else []


def _panel(measure: Measure, found: Comparison) -> Panel:
    relative = "cloud" in found.modes
    written: Callable[[float], str] = percent if relative else seconds
    times = {
        each.mode: (each.total_s.to_cloud or _alone(1.0))
        if relative
        else _alone((each.total_s.value or 0.0) / len(found.clips))
        for each in found.costs
    }
    ends = [_ends(measure.of[mode]) for mode in times]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    margin = 0.12 * max(most - least, 0.02)
    across = Axis(12.0, 94.0, 0.0, max(_ends(time)[1] for time in times.values()) * 1.02)
    along = Axis(236.0, 18.0, max(least - margin, 0.0), min(most + margin, 1.0))
    points: list[Placed] = []
    for mode, time in times.items():
        quality = measure.of[mode]
        x, y = across.place(time.value), along.place(quality.value)
        near = any(abs(x - other.x) < _NEAR[0] and abs(y - other.y) < _NEAR[1] for other in points)
        low, high = along.places(quality)
        points.append(
            Placed(
                mode,
                x,
                y,
                across=across.places(time),
                along=(high, low),
                anchor="end" if x > 60 else "start",
                right=-9 if x > 60 else 9,
                down=18 if near else -9,
                said=f"{mode}: {with_ends(quality, share)} at {with_ends(time, written)}",
            )
        )
    at = {point.mode: (point.x, point.y) for point in points}
    return Panel(
        title=measure.name[0].upper() + measure.name[1:],
        horizontal="time, as a share of cloud-only's" if relative else "time of a clip",
        points=tuple(points),
        x_ticks=across.ticks(written),
        y_ticks=along.ticks(lambda tick: f"{100 * tick:g}%"),
        at_random=(at["edge"], at["cloud"]) if {"edge", "cloud"} <= at.keys() else None,
    )


def _ends(found: Interval) -> tuple[float, float]:
    """Its ends, with the figure itself between them."""
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return min(low, found.value), max(high, found.value)
