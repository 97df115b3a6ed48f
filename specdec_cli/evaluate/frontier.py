"""Gap closed against what the cloud costs: the three costs, escalation at random, and the oracle.

Each cost is a share of what the cloud alone would take of it, so that all three run from 0 (edge-only) to 1. Captioning
clips that are drawn at random by the cloud alone and the others by the edge closes, on average, the share of the gap
that it spends of any of the costs: that is the random gate, and the diagonal of every picture.

The oracle sees where the cloud's class is right and the edge's is wrong, escalates one block for each such class, and
takes no other token from the cloud. It is an upper bound for gates, and reaches it within any budget by taking the
clips with the largest gain per cost first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from specdec_cli.evaluate.bootstrap import (
    Figures,
    Interval,
    Resampler,
    Statistic,
    Values,
    difference,
    mean,
    over_attributes,
    ratio,
)
from specdec_cli.evaluate.gap import known_alike, share_of_gap
from specdec_cli.types import Cost

_STEPS: Final = 12  # of an oracle's curve


@dataclass(frozen=True, slots=True)
class Spending:
    """One cost of n clips in any unit: what was spent and what could be, [n] each; NaN where not measured."""

    spent: Values
    whole: Values

    @property
    def share(self) -> Statistic:
        """Spent / whole, of sums over clips."""
        return ratio(self.spent, self.whole)


def spendings(
    escalations: Values, rounds: Values, woken: Values, cloud_ms: Values, alone_ms: Values
) -> dict[Cost, Spending]:
    """The three costs of n clips [n].

    Args:
        escalations, rounds: blocks that were escalated, and all of them.
        woken: 1 for clips that called the cloud, else 0.
        cloud_ms, alone_ms: time of the cloud's forwards, and what cloud-only takes of it.
    """
    return {
        "blocks": Spending(escalations, rounds),
        "clips": Spending(woken, np.ones(len(woken))),
        "time": Spending(cloud_ms, alone_ms),
    }


class AtCost(Figures):
    """What a setting spends of one cost, and what the same spending closes otherwise."""

    cost: Cost
    spent: Interval = Field(description="share of the cost, 0 to 1; escalation at random closes as much of the gap")
    above_random: Interval | None = Field(
        description="gap closed - spent, paired by clip; null: no share of the gap can be given"
    )
    oracle: Interval | None = Field(
        description="gap that the oracle closes at this cost; null: no share of it can be given, or not of classes"
    )


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One setting: what it spends, and what it closes.

    Attributes:
        label: short name for a picture or a table.
        gate: what it belongs to; settings of one gate share a line.
        spent: share of each cost, 0 to 1; None where it was not measured.
        gap_closed: share of the distance from edge to cloud that it covers, with its interval: 0 is the edge, 1 the
            cloud; None where the two are not measurably apart, which leaves the point out of a picture.
        confirmed: whether it was run on clips that nothing was fitted on, rather than estimated from a recording.
    """

    label: str
    gate: str
    spent: Mapping[Cost, float | None]
    gap_closed: Interval | None
    confirmed: bool


class OracleCurve(Figures):
    """The oracle against one cost, for a picture."""

    cost: Cost
    points: list[tuple[float, float]] = Field(description="[share of the cost, share of the gap closed], rising")


@dataclass(frozen=True, slots=True)
class Oracle:
    """An oracle over n clips.

    Attributes:
        edge, cloud: 1 or 0 for right or wrong [n, attributes], NaN where the reference names no class.
        costs: what correcting all classes of a clip that only the cloud has right takes of each cost.
    """

    edge: Values
    cloud: Values
    costs: Mapping[Cost, Spending]

    def gain(self, cost: Cost, budget: Statistic) -> Statistic:
        """Quality gained over the edge within a share of `cost`; the last clip counts by the part that it fits in.

        NaN where the cost was not measured.
        """
        spending = self.costs[cost]
        if not np.isfinite(spending.share(np.ones(len(self.edge)))):
            return constant(np.nan)
        known = np.isfinite(self.edge) & np.isfinite(self.cloud)
        gains = np.where(known & (self.cloud > self.edge), self.cloud - self.edge, 0.0)
        worth = (gains / np.maximum(known.sum(axis=0), 1)).sum(axis=1)
        clips = np.flatnonzero(worth > 0)
        order = clips[np.argsort(-worth[clips] / np.maximum(spending.spent[clips], 1e-12), kind="stable")]

        def statistic(counts: Values) -> Values:
            times = counts[..., order]
            whole = np.asarray(counts @ spending.whole)[..., None]
            costs = times * spending.spent[order] / whole
            before = costs.cumsum(axis=-1) - costs
            room = np.asarray(budget(counts))[..., None] - before
            taken = np.clip(np.divide(room, costs, out=np.zeros_like(costs), where=costs > 0), 0.0, 1.0)
            return over_attributes((times * taken) @ gains[order], counts @ known)

        return statistic


def oracle(
    edge: npt.ArrayLike,
    cloud: npt.ArrayLike,
    blocks: Values,
    prefill_ms: Values,
    verification_ms: float | None,
    alone_ms: Values,
) -> Oracle:
    """The oracle of n clips.

    Args:
        edge, cloud: see `Oracle`.
        blocks: that the edge alone drafts of each clip [n].
        prefill_ms: the cloud's audio encoder and prefill of each clip [n], the first verification included.
        verification_ms: each further one; None: not measured.
        alone_ms: what cloud-only spends in the cloud on each clip [n].
    """
    own, its = (table.reshape(len(table), -1) for table in known_alike(edge, cloud))
    classes = (its > own).sum(axis=1).astype(np.float64)
    ms = np.nan if verification_ms is None else verification_ms
    took = np.where(classes > 0, prefill_ms + np.where(classes > 1, (classes - 1) * ms, 0.0), 0.0)
    woken = (classes > 0).astype(np.float64)
    return Oracle(own, its, spendings(np.minimum(classes, blocks), blocks, woken, took, alone_ms))


def measure_costs(
    tables: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
    spendings: Mapping[Cost, Spending],
    best: Oracle | None,
    resampler: Resampler,
    *,
    measurable: bool,
) -> list[AtCost]:
    """One entry a cost that was measured.

    Args:
        tables: quality of edge, hybrid and cloud, as `measure_gap` takes them.
        spendings: the hybrid's.
        best: None where quality is not that of classes.
        resampler: of these clips.
        measurable: whether a share of the gap can be given.
    """
    edge, hybrid, cloud = map(mean, known_alike(*tables))
    gap = difference(cloud, edge)
    closed = share_of_gap(difference(hybrid, edge), gap)
    found = []
    for cost, spending in spendings.items():
        if (spent := resampler.interval(spending.share)) is None:
            continue
        reached = share_of_gap(best.gain(cost, spending.share), gap) if best else None
        found.append(
            AtCost(
                cost=cost,
                spent=spent,
                above_random=resampler.interval(difference(closed, spending.share)) if measurable else None,
                oracle=resampler.interval(reached) if measurable and reached else None,
            )
        )
    return found


def oracle_curves(best: Oracle) -> list[OracleCurve]:
    """The oracle against each cost that was measured, where there is a gap to close."""
    once = np.ones(len(best.edge))
    gap = float(mean(best.cloud)(once) - mean(best.edge)(once))
    curves = []
    for cost, spending in best.costs.items():
        most = float(spending.share(once))
        if gap > 0 and np.isfinite(most):
            shares = [most * step / _STEPS for step in range(_STEPS + 1)]
            points = [(share, float(best.gain(cost, constant(share))(once)) / gap) for share in shares]
            curves.append(OracleCurve(cost=cost, points=points))
    return curves


def constant(value: float) -> Statistic:
    """The same figure for every resample."""
    return lambda counts: np.full(counts.shape[:-1], value)
