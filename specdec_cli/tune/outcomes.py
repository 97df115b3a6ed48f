"""What a tuning finds: what each setting did with clips, and the frontier of quality against each cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import Field

from specdec_cli.evaluate.bootstrap import Figures, Interval, Resampler, Values, mean
from specdec_cli.evaluate.frontier import AtCost, FrontierPoint, Oracle, OracleCurve, Spending, measure_costs, spendings
from specdec_cli.evaluate.gap import GapClosed, measure_gap
from specdec_cli.tune.measure import Measure, Parts
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.risk import Certified
from specdec_cli.types import COSTS, Cost, GateName


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedPoint(FrontierPoint):
    """One setting of one gate, measured.

    Attributes:
        at_costs: what it spends of each cost, and what that closes otherwise.
        threshold, k, stop_drafting, wake: see `Candidate`.
        quality: mean of the figure that the gap is taken in, 0 to 1.
        escalations_per_clip: mean number of escalations of a clip. Unlike the escalation rate it does not
            change merely because the same text is cut into smaller blocks.
    """

    gate: GateName
    threshold: float
    k: int
    quality: float
    stop_drafting: bool
    wake: float | None
    escalations_per_clip: float
    at_costs: list[AtCost]

    def at(self, cost: Cost) -> AtCost | None:
        """What it spends of one cost; None: not measured."""
        return next((at for at in self.at_costs if at.cost == cost), None)


class Tuning(Figures):
    """Gates against each other on one set of clips. Shares are between 0 and 1."""

    measure: Measure = Field(
        description="classes of references, chrF with their texts, or (agreement) with the cloud's caption"
    )
    clips: int = Field(description="clips that were recorded")
    references_found: int | None = Field(
        default=None, description="of them, those with a reference; null: no references were given"
    )
    fitted_on: int = Field(description="clips that thresholds and weights were chosen on")
    confirmed_on: int = Field(description="other clips, on which settings were run")
    split_by: str = Field(description="what keeps the two apart: speaker or clip")
    cost: Cost = Field(description="what the budget is of: share of blocks, of clips, or of cloud-only's time")
    budget: float = Field(description="largest share of it that was to be recommended")
    risk: Certified | None = Field(default=None, description="guarantee of the recommended setting; null: no --risk")
    edge_quality: float = Field(description="mean quality of the edge alone, on the clips of the runs")
    cloud_quality: float = Field(description="mean quality of the cloud alone, on the same clips")
    gap: Interval = Field(description="their difference")
    parts: Parts | None = Field(
        description="by which the cloud's time of estimates is reckoned; null: the cloud does not report its times"
    )
    replays_exact: float = Field(description="share of the estimates' clips whose text never left the recorded ones")
    estimated: tuple[TunedPoint, ...] = Field(description="every setting, replayed on the clips of the fitting")
    confirmed: tuple[TunedPoint, ...] = Field(description="the settings that were run")
    recommended: TunedPoint | None = Field(description="the setting to take; null: none, for the reason below")
    reason: str | None = Field(default=None, description="why nothing is recommended; null: a setting is")
    oracles: list[OracleCurve] = Field(default=[], description="on the clips of the runs; empty: not of classes")
    notes: list[str] = Field(default=[], description="what was left out, and how to have it")
    learned: dict[str, Any] | None = Field(description="how the learned gate was fitted; null without it")
    output: str | None = Field(default=None, description="gate file that was written")


@dataclass(frozen=True, slots=True)
class Baselines:
    """Quality of the edge alone and of the cloud alone on the same n clips [n, attributes], and their resampler."""

    edge: Values
    cloud: Values
    resampler: Resampler

    def gap(self, quality: Values) -> GapClosed | None:
        """What captions of this quality gain over the edge's; None: no reference covers the clips."""
        return measure_gap(self.edge, quality, self.cloud, self.resampler)


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """What a setting did with each of n clips, by replays or by real runs."""

    candidate: Candidate
    confirmed: bool  # by real runs
    quality: Values  # figures per clip [n, attributes], NaN where no reference has any
    differing: Values  # 1 for clips that name another class than the cloud [n]
    rounds: Values  # blocks per clip [n]
    escalations: Values  # of them, those that were escalated [n]
    woken: Values  # 1 for clips on which the cloud worked [n]
    cloud_ms: Values  # time of the cloud's forwards [n]; NaN: not known
    alone_ms: Values  # the same of cloud-only [n]
    exact: int = 0  # clips whose replay is exact

    @property
    def spendings(self) -> dict[Cost, Spending]:
        """What it spent by cost; a deferred draft is no block like others."""
        found = spendings(self.escalations, self.rounds, self.woken, self.cloud_ms, self.alone_ms)
        if self.candidate.deferred:
            del found["blocks"]
        return found

    def share(self, cost: Cost) -> float:
        """Share of a cost; NaN where it is not known."""
        spending = self.spendings.get(cost)
        return float("nan") if spending is None else float(spending.share(np.ones(len(self.rounds))))

    @property
    def mean(self) -> float:
        """Mean quality: over attributes, of the mean over the clips that a reference covers."""
        return float(mean(self.quality)(np.ones(len(self.quality))))

    def point(self, alone: Baselines, best: Oracle | None) -> TunedPoint:
        """The setting as a point, on the frontier of these baselines and this oracle.

        Estimates come without the comparison with it, which takes its time for dozens of settings.
        """
        found = alone.gap(self.quality)
        closed = found.closed if found else None
        at_costs: list[AtCost] = []
        if self.confirmed:
            tables, measurable = (alone.edge, self.quality, alone.cloud), closed is not None
            at_costs = measure_costs(tables, self.spendings, best, alone.resampler, measurable=measurable)
        shares = {cost: self.share(cost) for cost in COSTS}
        return TunedPoint(
            **asdict(self.candidate),
            label=self.candidate.label,
            spent={cost: share if np.isfinite(share) else None for cost, share in shares.items()},
            gap_closed=closed,
            at_costs=at_costs,
            quality=self.mean,
            confirmed=self.confirmed,
            escalations_per_clip=float(self.escalations.mean()),
        )
