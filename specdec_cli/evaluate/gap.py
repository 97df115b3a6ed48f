"""Gap closed: the part of the cloud's lead over the edge that a hybrid reaches, and what the hybrid spends on it.

Each of the three costs is a share of what cloud-only takes of it, from 0 (edge-only) to 1. With escalation at random
the cloud alone captions clips that are drawn at random, and the edge the others. On average this closes the same share
of the gap as it spends of each cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from specdec_cli.stats import Figures, Resampler, Statistic, difference, mean, quotient
from specdec_cli.types import Cost, Interval

_ROUNDING: Final = 1e-9  # differences of shares below this are none
Spent = Mapping[Cost, Statistic]
"""Cost -> the share of it that a setting spends; NaN where it was not measured."""


class AtCost(Figures):
    """What a setting spends of one cost, and how much more it closes than escalation at random that spends as much."""

    cost: Cost
    spent: Interval = Field(description="share of the cost, 0 to 1; escalation at random closes as much of the gap")
    above_random: Interval | None = Field(
        description="gap closed - spent, paired by clip; null: no share of the gap can be given"
    )


class GapClosed(Figures):
    """Quality of edge-only, of a mode between, and of cloud-only, paired by clip."""

    clips: int = Field(description="clips that could be measured")
    edge: float = Field(description="of edge-only, 0 to 1")
    value: float = Field(description="of this mode, 0 to 1")
    cloud: float = Field(description="of cloud-only, 0 to 1; with basis cloud it is 1")
    gap: Interval = Field(description="cloud - edge, paired by clip")
    gain: Interval = Field(description="value - edge, paired by clip")
    lead: Interval = Field(description="value - cloud, paired by clip")
    closed: Interval | None = Field(description="gain / gap; null: the interval of the gap holds 0, or it is below")
    at_costs: list[AtCost] = Field(default=[], description="one for each cost that was measured")


def measure_gap(
    edge: npt.ArrayLike, hybrid: npt.ArrayLike, cloud: npt.ArrayLike, resampler: Resampler, spent: Spent | None = None
) -> GapClosed | None:
    """The gap between edge and cloud, and how much of it the hybrid closes: (hybrid - edge) / (cloud - edge).

    `closed` is 0 if the hybrid is no better than the edge, 1 if it is as good as the cloud, and above 1 if it is
    better. A ratio has no useful interval if its denominator may be 0. So `closed` is given only if the interval of the
    gap is above 0, and the few resamples without a gap are left out of its interval.

    Args:
        edge, hybrid, cloud: 1 or 0 (or any score, higher is better) of each clip and attribute, [clips] or
            [clips, attributes]; NaN where the clip's reference names no class. The mean is taken over clips, then over
            attributes. A value that is NaN in one of the three is left out of all.
        spent: shares of the costs that the hybrid spends; None: not measured.

    Returns:
        The figures; None where no clip is known.
    """
    tables = [np.asarray(values, dtype=np.float64) for values in (edge, hybrid, cloud)]
    known = np.asarray(np.isfinite(tables).all(axis=0))
    of_edge, of_hybrid, of_cloud = (mean(np.where(known, table, np.nan)) for table in tables)
    gap, gain = difference(of_cloud, of_edge), difference(of_hybrid, of_edge)
    width, gained = resampler.interval(gap), resampler.interval(gain)
    lead = resampler.interval(difference(of_hybrid, of_cloud))
    if width is None or gained is None or lead is None:
        return None
    measurable = width.low is not None and width.low > _ROUNDING
    closed, once = share_of_gap(gain, gap), np.ones(resampler.clips)

    def above(share: Statistic) -> Interval | None:
        return resampler.interval(difference(closed, share)) if measurable else None

    return GapClosed(
        clips=int(known.reshape(len(known), -1).any(axis=1).sum()),
        edge=float(of_edge(once)),
        value=float(of_hybrid(once)),
        cloud=float(of_cloud(once)),
        gap=width,
        gain=gained,
        lead=lead,
        closed=resampler.interval(closed) if measurable else None,
        at_costs=[
            AtCost(cost=cost, spent=found, above_random=above(share))
            for cost, share in (spent or {}).items()
            if (found := resampler.interval(share))
        ],
    )


def share_of_gap(gain: Statistic, gap: Statistic) -> Statistic:
    """A gain over the edge as a share of the gap; NaN for resamples without a gap."""
    return quotient(gain, lambda counts: np.where((width := gap(counts)) > _ROUNDING, width, 0.0))
