"""The frontier as a picture: how much of the quality gap is closed, against each cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specdec_cli.evaluate.frontier import FrontierPoint
from specdec_cli.format import COST_NAMES
from specdec_cli.plot.picture import COLOURS, GROUND, MUTED, picture
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIGNS: Final = "osD^vP*X"
_AXES: Final[Mapping[Cost, str]] = {
    "blocks": "blocks escalated, %",
    "clips": "clips that call the cloud, %",
    "time": "the cloud's time, % of cloud-only's",
}
_PANEL: Final = (4.0, 3.9)  # inches
_DASHES: Final = (0, (4, 4))
_DOTS: Final = (0, (1, 2))
Oracles = Mapping[Cost, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A point with a place in a panel, in percent."""

    point: FrontierPoint
    x: float
    y: float
    low: float
    high: float


def measured_costs(points: Sequence[FrontierPoint]) -> list[Cost]:
    """The costs that some point has."""
    return [cost for cost in COSTS if any(point.spent.get(cost) is not None for point in points)]


def frontier(
    points: Sequence[FrontierPoint],
    *,
    title: str,
    oracles: Oracles | None = None,
    costs: Sequence[Cost] | None = None,
    kind: str = "svg",
) -> bytes:
    """The settings with their intervals, escalation at random (dashed) and the oracle (dotted), a panel for each cost.

    Args:
        points: settings; those of one gate share a colour, a sign and a line.
        title: above all panels.
        oracles: of each cost, (share of the cost, share of the gap closed).
        costs: those to draw; None: all that were measured.
        kind: one of `picture.KINDS`.
    """
    shown = costs or measured_costs(points) or ["blocks"]
    drawn = picture(lambda: _figure(points, title, oracles or {}, shown), kind, describe(points, shown))
    return drawn[0]


def describe(points: Sequence[FrontierPoint], costs: Sequence[Cost]) -> str:
    """The picture in words."""
    sentences = [
        f"{mark.point.label}{'' if mark.point.confirmed else ' (estimated)'}: {COST_NAMES[cost]} {mark.x:.1f}%, "
        f"{mark.y:.0f}% of the gap closed{f' ({mark.low:.0f} to {mark.high:.0f})' if mark.high > mark.low else ''}."
        for cost in costs
        for mark in _marks(points, cost)
    ]
    return " ".join(sentences) or "No setting was measured."


def _figure(points: Sequence[FrontierPoint], title: str, oracles: Oracles, costs: Sequence[Cost]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_PANEL[0] * len(costs), _PANEL[1]), layout="constrained")
    panels = list(figure.subplots(1, len(costs), sharey=True, squeeze=False)[0])
    gates = list(dict.fromkeys(point.gate for point in points if point.gap_closed is not None))
    for panel, cost in zip(panels, costs, strict=True):
        marks = list(_marks(points, cost))
        _scales(panel, marks)
        _references(panel, oracles.get(cost, ()))
        for number, gate in enumerate(gates):
            _gate(panel, [mark for mark in marks if mark.point.gate == gate], number)
        panel.set_xlabel(_AXES[cost])
    panels[0].set_ylabel("gap closed, %")
    figure.legend(
        handles=_keys(points, gates, bool(oracles)), loc="outside lower left", ncols=3 * len(panels), columnspacing=1.2
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _marks(points: Sequence[FrontierPoint], cost: Cost) -> Iterator[_Mark]:
    for point in points:
        gap, share = point.gap_closed, point.spent.get(cost)
        if gap is not None and math.isfinite(gap.value) and share is not None:
            ends = (gap.value if end is None or not math.isfinite(end) else end for end in (gap.low, gap.high))
            yield _Mark(point, 100 * share, 100 * gap.value, *(100 * end for end in ends))


def _scales(panel: Axes, marks: Sequence[_Mark]) -> None:
    """Shares from 0; beyond -50% and 150% of the gap there is nothing to see."""
    most = max((mark.x for mark in marks), default=100.0)
    panel.set_xlim(-2, next((end for end in (10, 20, 30, 50) if end >= 1.05 * most), 100) * 1.04)
    panel.set_ylim(
        max(min([-10.0, *(mark.low - 5 for mark in marks)]), -50.0),
        min(max([115.0, *(mark.high + 5 for mark in marks)]), 150.0),
    )
    panel.grid(linewidth=0.7)


def _references(panel: Axes, oracle: Sequence[tuple[float, float]]) -> None:
    """Escalation at random, which closes what it spends; and the oracle."""
    line: dict[str, Any] = {"color": MUTED, "linewidth": 1.3, "scalex": False, "scaley": False}
    panel.plot([0, 100], [0, 100], linestyle=_DASHES, **line)
    if oracle:
        places = [100 * share for share, _ in oracle], [100 * closed for _, closed in oracle]
        panel.plot(*places, linestyle=_DOTS, **line)


def _gate(panel: Axes, marks: Sequence[_Mark], number: int) -> None:
    """The settings of one gate: filled and with intervals where they were run, hollow where they were estimated."""
    for confirmed in (False, True):
        mine = sorted((mark for mark in marks if mark.point.confirmed is confirmed), key=lambda mark: mark.x)
        values = np.clip([[mark.low, mark.y, mark.high] for mark in mine], *panel.get_ylim()).reshape(-1, 3)
        places, style = ([mark.x for mark in mine], values[:, 1]), _style(number, confirmed)
        if confirmed:
            ends = np.abs(values[:, [0, 2]] - values[:, 1:2]).T
            panel.errorbar(*places, yerr=ends, elinewidth=1.3, capsize=3, linestyle="", zorder=3, **style)
        else:
            panel.plot(*places, linewidth=0.8, alpha=0.5, **style)


def _style(number: int, confirmed: bool) -> dict[str, Any]:
    colour = COLOURS[number % len(COLOURS)]
    own = {"color": colour, "marker": _SIGNS[number % len(_SIGNS)], "markerfacecolor": colour if confirmed else GROUND}
    return own | {"markersize": 7 if confirmed else 4}


def _keys(points: Sequence[FrontierPoint], gates: Sequence[str], oracle: bool) -> list[Any]:
    """The entries of the legend."""
    from matplotlib.lines import Line2D

    keys = [Line2D([], [], linestyle="", label=gate, **_style(n, True)) for n, gate in enumerate(gates)]
    if not all(point.confirmed for point in points):
        keys.append(Line2D([], [], linestyle="", label="hollow: estimated", **_style(0, False)))
    keys.append(Line2D([], [], linestyle=_DASHES, color=MUTED, label="at random"))
    return keys + ([Line2D([], [], linestyle=_DOTS, color=MUTED, label="oracle")] if oracle else [])
