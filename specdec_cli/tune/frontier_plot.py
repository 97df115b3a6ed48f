"""The frontier as a picture: how much better than the edge alone settings are, against each cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from specdec_cli.picture import COLOURS, INK, LINE, MUTED, picture
from specdec_cli.types import COSTS, Cost, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from specdec_cli.tune.outcomes import TunedPoint

_SIGNS: Final = "osD^vP*X"
_AXES: Final[Mapping[Cost, str]] = {
    "blocks": "blocks that the cloud verifies, %",
    "clips": "clips that call the cloud, %",
    "time": "time in the cloud, % of cloud-only's",
}


def frontier(points: Sequence[TunedPoint], gap: Interval, *, what: str, title: str, kind: str = "svg") -> bytes:
    """The settings with their intervals between edge-only and cloud-only, a panel for each cost that gates spend.

    Blocks have no panel where all drafts are deferred. Escalation at random is dashed. The settings of one gate share a
    colour and a sign, and are joined.

    Args:
        gap: by how much the cloud alone is better than the edge alone.
        what: its unit, in words.
        kind: one of `picture.KINDS`.
    """
    return picture(lambda figure: _draw(figure, points, gap, what, title), kind, title)


def _draw(figure: Figure, points: Sequence[TunedPoint], gap: Interval, what: str, title: str) -> None:
    known = (
        {cost for cost, share in point.spent.items() if share is not None} for point in points if point.gate != "random"
    )
    measured = set[Cost]().union(*known)
    costs = [cost for cost in COSTS if cost in measured] or ["clips"]
    figure.set_size_inches(max(4.0 * len(costs), 5.5), 4.3)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    panels = figure.subplots(1, len(costs), sharey=True, squeeze=False)[0]
    gates = list(dict.fromkeys(point.gate for point in points))
    for panel, cost in zip(panels, costs, strict=True):
        most = max((point.spent.get(cost) or 0.0 for point in points), default=1.0)
        panel.set(xlabel=_AXES[cost], xlim=(-2 * max(most, 0.1), min(125 * max(most, 0.1), 102)))
        panel.grid()
        panel.axhline(0, color=MUTED, linewidth=1, label="edge alone")
        panel.axhline(100 * gap.value, color=INK, linewidth=1, label="cloud alone")
        if gap.low is not None and gap.high is not None:
            panel.axhspan(
                100 * gap.low, 100 * gap.high, color=LINE, alpha=0.45, linewidth=0, label="cloud alone, 95% interval"
            )
        panel.plot([0, 100], [0, 100 * gap.value], linestyle=(0, (4, 4)), color=MUTED, label="calls at random")
        for number, gate in enumerate(gates):
            _gate(panel, [point for point in points if point.gate == gate], cost, number)
    panels[0].set_ylabel(f"better than the edge, percentage points\n({what}; bars: 95% intervals)")
    names = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend([*names.values()], [*names], loc="outside lower left", ncols=3 * len(costs), columnspacing=1.2)


def _gate(panel: Axes, points: Sequence[TunedPoint], cost: Cost, number: int) -> None:
    """The settings of one gate with their intervals, in the order of their costs."""
    known = [(share, point.gain) for point in points if (share := point.spent.get(cost)) is not None]
    if not known:
        return
    known.sort(key=lambda found: (found[0], found[1].value))
    x, y = (100 * np.array(values) for values in zip(*((share, gain.value) for share, gain in known), strict=True))
    low = [0.0 if gain.low is None else max(100 * (gain.value - gain.low), 0.0) for _, gain in known]
    high = [0.0 if gain.high is None else max(100 * (gain.high - gain.value), 0.0) for _, gain in known]
    panel.errorbar(
        x,
        y,
        yerr=[low, high],
        label=points[0].gate,
        color=COLOURS[number % len(COLOURS)],
        marker=_SIGNS[number % len(_SIGNS)],
        linestyle="-",
        linewidth=0.8,
        markersize=7,
        capsize=3,
        elinewidth=1.4,
    )
