"""What was bought: the quality of each mode against its time, as sentences and as a picture without any framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from specdec_cli.evaluate.comparison_tables import same_as_cloud
from specdec_cli.evaluate.result import Comparison, ModeQuality
from specdec_cli.format import percent, seconds, share, with_ends
from specdec_cli.stats import Interval
from specdec_cli.types import Mode

HEIGHT: Final = 280  # of a picture, CSS pixels; its width is that of the page
_TOP, _BOTTOM = 18.0, 236.0  # of the plane in it, pixels
_LEFT, _RIGHT = 12.0, 94.0  # of the plane, % of the width
_TICKS: Final = 6  # at most
_NEAR: Final = (16.0, 22.0)  # % and pixels within which two names would overlap


class Measure(NamedTuple):
    """A figure of quality that every mode has, 0 to 1."""

    name: str
    of: dict[Mode, Interval]


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
        kinds = f"mean of {len(attributes)} attributes"
        first = _measure(f"classes named right, {kinds}", of, lambda each: each.label_mean)
        if len(attributes) == 1:
            return [_measure(f"{attributes[0]} named right", of, lambda each: each.label_mean)]
        if "emotion" not in attributes:
            return [first]
        return [first, _measure("emotion named right", of, lambda each: each.labels["emotion"].accuracy)]
    if of and all(each.text for each in of):
        texts = {each.mode: _alone(each.text.chrf / 100) for each in of if each.text}
        return [Measure("chrF with the references", texts)]
    if "cloud" not in found.modes:
        return []
    same = {each.mode: each.same_labels or _alone(1.0) for each in of}
    return [Measure("classes equal to cloud-only's", same)] if same else []


def _measure(name: str, of: Sequence[ModeQuality], figure: Callable[[ModeQuality], Interval | None]) -> Measure:
    return Measure(name, {each.mode: interval for each in of if (interval := figure(each))})


def _alone(value: float) -> Interval:
    return Interval(value, None, None)


def sentences(found: Comparison) -> Iterator[str]:
    """What each mode between edge-only and cloud-only keeps of the quality, at which time, and for how many clips."""
    costs = {each.mode: each for each in found.costs}
    for mode in (mode for mode in found.modes if mode in ("hybrid", "lossless") and "cloud" in costs):
        own, time = costs[mode], costs[mode].total_s.to_cloud
        keeps = _keeps(found, mode)
        if keeps is None or time is None:
            continue
        woken = own.clips_woken.value if own.clips_woken else None
        called = "every clip" if woken == 1 else f"{percent(woken)} of the clips"
        spent = with_ends(time, percent)
        yield f"{mode.capitalize()} {keeps} at {spent} of its time; the cloud was called for {called}."


def _keeps(found: Comparison, mode: Mode) -> str | None:
    if same_as_cloud(found, mode):
        return "gives cloud-only's captions"
    lead = next(iter(measures(found)), None)
    if lead is None or not lead.of["cloud"].value:
        return None
    own, cloud = lead.of[mode].value, lead.of["cloud"].value
    return f"keeps {share(own / cloud)} of cloud-only's quality ({lead.name}: {share(own)} against {share(cloud)})"


def panels(found: Comparison) -> list[Panel]:
    """The pictures of a comparison; none where there is nothing to set time against."""
    return [_panel(measure, found) for measure in measures(found)] if len(found.costs) > 1 else []


def _panel(measure: Measure, found: Comparison) -> Panel:
    relative = "cloud" in found.modes
    times = {
        each.mode: (each.total_s.to_cloud or _alone(1.0))
        if relative
        else _alone((each.total_s.value or 0.0) / len(found.clips))
        for each in found.costs
    }
    width = max(_ends(time)[1] for time in times.values()) * 1.02
    ends = [_ends(measure.of[mode]) for mode in times]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    spread = max(most - least, 0.02)
    bottom, top = max(least - 0.12 * spread, 0.0), min(most + 0.12 * spread, 1.0)
    form: Callable[[float], str] = percent if relative else seconds

    def across(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * value / width, 2)

    def along(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (value - bottom) / (top - bottom), 1)

    points: list[Placed] = []
    for mode, time in times.items():
        quality = measure.of[mode]
        x, y = across(time.value), along(quality.value)
        near = any(abs(x - other.x) < _NEAR[0] and abs(y - other.y) < _NEAR[1] for other in points)
        last = x > (_LEFT + _RIGHT) * 0.6
        wide, tall = (
            (across(_ends(time)[0]), across(_ends(time)[1])),
            (along(_ends(quality)[1]), along(_ends(quality)[0])),
        )
        said = f"{mode}: {with_ends(quality, share)} at {with_ends(time, form)}"
        place = ("end", -9) if last else ("start", 9)
        points.append(Placed(mode, x, y, wide, tall, *place, 18 if near else -9, said))
    at = {point.mode: (point.x, point.y) for point in points}
    return Panel(
        title=measure.name[0].upper() + measure.name[1:],
        horizontal="time, of cloud-only's" if relative else "time of a clip",
        points=tuple(points),
        x_ticks=tuple((across(tick), form(tick)) for tick in _ticks(0.0, width)),
        y_ticks=tuple((along(tick), f"{100 * tick:g}%") for tick in _ticks(bottom, top)),
        at_random=(at["edge"], at["cloud"]) if {"edge", "cloud"} <= at.keys() else None,
    )


def _ends(found: Interval) -> tuple[float, float]:
    low, high = found.low, found.high
    return (
        (found.value, found.value) if low is None or high is None else (min(low, found.value), max(high, found.value))
    )


def _ticks(least: float, most: float) -> list[float]:
    """Round figures from `least` to `most`."""
    rough = (most - least) / _TICKS
    ten = 10.0 ** math.floor(math.log10(rough))
    step = next(ten * times for times in (1, 2, 5, 10) if ten * times >= rough)
    first = math.ceil(round(least / step, 6))
    return [round(step * number, 6) for number in range(first, math.floor(round(most / step, 6)) + 1)]
