"""What a tuning finds: the frontier of quality against each cost, and which setting to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import Field

from specdec_cli.evaluate.bootstrap import Figures, Interval, Resampler, Values, mean
from specdec_cli.evaluate.frontier import AtCost, FrontierPoint, Oracle, OracleCurve, Spending, measure_costs
from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.tune.candidates import Candidate
from specdec_cli.tune.measure import Measure, Parts
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
    fitted_on: int = Field(description="clips that thresholds and weights were chosen on")
    confirmed_on: int = Field(description="other clips, on which settings were run")
    split_by: str = Field(description="what keeps the two apart: speaker or clip")
    cost: Cost = Field(description="what the budget is of: share of blocks, of clips, or of cloud-only's time")
    budget: float = Field(description="largest share of it that was to be recommended")
    risk: Certified | None = Field(default=None, description="guarantee of the recommended setting; null: none asked")
    edge_quality: float = Field(description="mean quality of the edge alone, on the clips of the runs")
    cloud_quality: float = Field(description="mean quality of the cloud alone, on the same clips")
    gap: Interval = Field(description="their difference")
    parts: Parts | None = Field(
        description="by which the cloud's time of estimates is reckoned; null: the cloud does not say"
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
class SettingOutcome:
    """What a setting did with each of n clips."""

    candidate: Candidate
    quality: Values  # figures per clip [n, attributes], NaN where the reference does not tell
    rounds: Values  # blocks per clip [n]
    escalations: Values  # of them, those that were escalated [n]
    confirmed: bool  # by real runs
    differing: Values | None = None  # 1 for clips that name another class than the cloud [n]; None: not read
    woken: Values | None = None  # 1 for clips on which the cloud worked [n]; None: those with an escalation
    cloud_ms: Values | None = None  # time of the cloud's forwards [n]; None: not known
    alone_ms: Values | None = None  # the same of cloud-only [n]

    @property
    def spendings(self) -> dict[Cost, Spending]:
        """What is known of it by cost; a deferred draft is no block like others."""
        woken = (self.escalations > 0).astype(np.float64) if self.woken is None else self.woken
        found: dict[Cost, Spending] = {"clips": Spending(woken, np.ones(len(woken)))}
        if not self.candidate.deferred:
            found = {"blocks": Spending(self.escalations, self.rounds), **found}
        if self.cloud_ms is not None and self.alone_ms is not None:
            found["time"] = Spending(self.cloud_ms, self.alone_ms)
        return found

    def share(self, cost: Cost) -> float:
        """Share of a cost; NaN where it is not known."""
        spending = self.spendings.get(cost)
        return float("nan") if spending is None else float(spending.share(np.ones(len(self.rounds))))

    @property
    def mean(self) -> float:
        """Mean quality: over attributes, of the mean over the clips whose reference tells."""
        return float(mean(self.quality)(np.ones(len(self.quality))))

    def point(self, edge: Values, cloud: Values, best: Oracle | None, resampler: Resampler) -> TunedPoint:
        """The setting as a point; `edge` and `cloud` are the two models' quality on the same clips, `best` the oracle.

        Estimates come without the comparison with it, which takes its time for dozens of settings.
        """
        found = measure_gap(edge, self.quality, cloud, resampler)
        closed = found.closed if found else None
        tables = edge, self.quality, cloud
        measurable = self.confirmed and closed is not None
        return TunedPoint(
            **asdict(self.candidate),
            label=self.candidate.label,
            spent={cost: _known(self.share(cost)) for cost in COSTS},
            gap_closed=closed,
            at_costs=measure_costs(tables, self.spendings, best, resampler, measurable=measurable)
            if self.confirmed
            else [],
            quality=self.mean,
            confirmed=self.confirmed,
            escalations_per_clip=float(self.escalations.mean()),
        )


def _known(share: float) -> float | None:
    return share if np.isfinite(share) else None


def worth_confirming(outcomes: Sequence[SettingOutcome], budget: float, cost: Cost = "blocks") -> list[Candidate]:
    """The settings to run: of each gate the best estimated ones within a third, two thirds and all of the budget."""
    found: list[Candidate] = []
    for gate in dict.fromkeys(outcome.candidate.gate for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.candidate.gate == gate]
        for share in (1 / 3, 2 / 3, 1.0):
            within = [outcome for outcome in mine if outcome.share(cost) <= budget * share]
            if within:
                best = max(within, key=lambda outcome: (round(outcome.mean, 6), -outcome.share(cost)))
                found.append(best.candidate)
    return list(dict.fromkeys(found))


def measurably_better(
    outcomes: Sequence[SettingOutcome], edge: Values, cloud: Values, resampler: Resampler
) -> list[SettingOutcome]:
    """The settings whose gain over the edge alone is certain: its interval lies above 0."""
    found = [(outcome, measure_gap(edge, outcome.quality, cloud, resampler)) for outcome in outcomes]
    return [outcome for outcome, gap in found if gap is not None and (gap.gain.low or 0.0) > 0]


def clips_needed(gain: Interval, clips: int) -> int | None:
    """Clips at which a gain as large as this one would be certain four times in five; None: there is none.

    By the normal approximation: 1.96 + 0.84 standard errors, which fall with the root of the number of clips.
    """
    if gain.value <= 0 or gain.low is None or gain.high is None:
        return None
    error = (gain.high - gain.low) / (2 * 1.96)
    return math.ceil(clips * (2.8 * error / gain.value) ** 2)


def recommended(outcomes: Sequence[SettingOutcome], budget: float, cost: Cost = "blocks") -> SettingOutcome | None:
    """The confirmed setting that spends least within one standard error of the best quality within the budget.

    Never the random gate; None if no setting is within the budget.

    The standard error is that of the difference to the best, paired by clip. One of them is the usual margin for
    "as good, but simpler" (Breiman et al. 1984, "Classification and Regression Trees", 3.4.3); a wider one would let
    few clips excuse any setting.
    """
    usable = (outcome for outcome in outcomes if outcome.confirmed and outcome.candidate.gate != "random")
    within = [outcome for outcome in usable if outcome.share(cost) <= budget]
    if not within:
        return None
    best = max(within, key=lambda outcome: (outcome.mean, -outcome.share(cost)))
    as_good = (o for o in within if best.mean - o.mean <= _standard_error(best, o))
    return min(as_good, key=lambda o: (o.share(cost), -o.mean))


def _standard_error(best: SettingOutcome, other: SettingOutcome) -> float:
    """Of the difference in mean quality, paired by clip (delta method: a mean over attributes of ratios)."""
    differences = best.quality - other.quality
    known = np.isfinite(differences)
    clips = known.sum(axis=0)
    centred = np.where(known, differences - np.nansum(differences, axis=0) / np.maximum(clips, 1), 0.0)
    influence = (centred / np.sqrt(np.maximum(clips * (clips - 1), 1))).sum(axis=1) / max((clips > 0).sum(), 1)
    return float(np.sqrt((influence**2).sum()))
