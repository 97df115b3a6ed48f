"""The frontier as a picture: how much of the quality gap is closed, against each cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specdec_cli.plot.picture import COLOURS, MUTED, picture
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from specdec_cli.tune.outcomes import TunedPoint

_SIGNS: Final = "osD^vP*X"
_AXES: Final[Mapping[Cost, str]] = {
    "blocks": "blocks escalated, %",
    "clips": "clips that call the cloud, %",
    "time": "the cloud's time, % of cloud-only's",
}


def frontier(points: Sequence[TunedPoint], *, title: str, kind: str = "svg") -> bytes:
    """The settings with their intervals, and escalation at random (dashed), a panel for each cost that was measured.

    Settings of one gate share a colour and a sign. `kind` is one of `picture.KINDS`.
    """
    return picture(lambda figure: _draw(figure, points, title), kind, title)[0]


def _draw(figure: Figure, points: Sequence[TunedPoint], title: str) -> None:
    costs = [cost for cost in COSTS if any(point.spent.get(cost) is not None for point in points)] or ["blocks"]
    figure.set_size_inches(max(4.0 * len(costs), 5.5), 3.9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    panels = figure.subplots(1, len(costs), sharey=True, squeeze=False)[0]
    for panel, cost in zip(panels, costs, strict=True):
        panel.set(xlabel=_AXES[cost], xlim=(-2, 104))
        panel.grid()
        panel.plot([0, 100], [0, 100], linestyle=(0, (4, 4)), color=MUTED, label="at random")
        for number, gate in enumerate(dict.fromkeys(point.gate for point in points)):
            _gate(panel, [point for point in points if point.gate == gate], cost, number)
    panels[0].set_ylabel("gap closed, %")
    names = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend([*names.values()], [*names], loc="outside lower left", ncols=3 * len(costs), columnspacing=1.2)


def _gate(panel: Axes, points: Sequence[TunedPoint], cost: Cost, number: int) -> None:
    """The settings of one gate with their intervals; beyond -50% and 150% of the gap there is nothing to see."""
    rows = [
        (share, gap.value if gap.low is None else gap.low, gap.value, gap.value if gap.high is None else gap.high)
        for point in points
        if (share := point.spent.get(cost)) is not None and (gap := point.gap_closed) is not None
    ]
    if not rows:
        return
    x, low, y, high = 100 * np.clip(np.array(rows).T, -0.5, 1.5)
    style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": _SIGNS[number % len(_SIGNS)]}
    panel.errorbar(x, y, yerr=[y - low, high - y], label=points[0].gate, linestyle="", capsize=3, markersize=7, **style)
