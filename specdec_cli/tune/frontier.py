"""The frontier: quality gained against blocks escalated, and which setting to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from specdec_cli.metrics import Resampler, Values, measure_gap
from specdec_cli.metrics.bootstrap import mean
from specdec_cli.report import frontier
from specdec_cli.tune.candidates import Candidate
from specdec_cli.types import GateName


@dataclass(frozen=True, slots=True)
class FrontierPoint(frontier.FrontierPoint):
    """One setting of one gate, measured.

    Attributes:
        threshold: in the unit of the gate.
        k: tokens drafted per block.
        quality: mean of the figure that the gap is taken in, 0 to 1.
        stop_drafting: whether a block ends with its first unsure token.
        asks_per_clip: mean number of escalations of a clip. Unlike the escalation rate it does not
            change merely because the same text is cut into smaller blocks.
    """

    gate: GateName
    threshold: float
    k: int
    quality: float
    stop_drafting: bool
    asks_per_clip: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting did with each of n clips.

    Attributes:
        candidate: the setting.
        quality: figures per clip [n, attributes], NaN where the reference does not tell.
        rounds, escalations: blocks per clip [n], and those that were escalated.
        confirmed: by real runs.
    """

    candidate: Candidate
    quality: Values
    rounds: Values
    escalations: Values
    confirmed: bool

    @classmethod
    def of(
        cls,
        candidate: Candidate,
        quality: Values,
        rounds: Sequence[int],
        escalations: Sequence[int],
        *,
        confirmed: bool,
    ) -> Outcome:
        """From counts per clip."""
        return cls(candidate, quality, np.array(rounds, float), np.array(escalations, float), confirmed)

    @property
    def rate(self) -> float:
        """Escalated / all blocks."""
        return float(self.escalations.sum() / self.rounds.sum())

    @property
    def mean(self) -> float:
        """Mean quality: over attributes, of the mean over the clips whose reference tells."""
        return float(mean(self.quality)(np.ones(len(self.quality))))

    def point(self, edge: Values, cloud: Values, resampler: Resampler) -> FrontierPoint:
        """The setting as a point; `edge` and `cloud` are the two models' quality on the same clips."""
        found = measure_gap(edge, self.quality, cloud, resampler)
        return FrontierPoint(
            **asdict(self.candidate),
            label=self.candidate.label,
            escalation_rate=self.rate,
            gap_closed=found.closed if found else None,
            quality=self.mean,
            confirmed=self.confirmed,
            asks_per_clip=float(self.escalations.mean()),
        )


def worth_confirming(outcomes: Sequence[Outcome], budget: float) -> list[Candidate]:
    """The settings to run: of each gate the best estimated ones within a third, two thirds and all of the budget."""
    found: list[Candidate] = []
    for gate in dict.fromkeys(outcome.candidate.gate for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.candidate.gate == gate]
        for share in (1 / 3, 2 / 3, 1.0):
            within = [outcome for outcome in mine if outcome.rate <= budget * share]
            if within:
                found.append(max(within, key=lambda outcome: (round(outcome.mean, 6), -outcome.rate)).candidate)
    return list(dict.fromkeys(found))


def recommended(outcomes: Sequence[Outcome], budget: float) -> Outcome | None:
    """The setting to take, by `least_within_noise`: a confirmed one, and never the random gate.

    Args:
        outcomes: over the same clips.
        budget: largest escalation rate, 0 to 1.

    Returns:
        None if nothing keeps to the budget.
    """
    return least_within_noise([o for o in outcomes if o.confirmed and o.candidate.gate != "random"], budget)


def least_within_noise(outcomes: Sequence[Outcome], budget: float) -> Outcome | None:
    """The least escalation within one standard error of the best quality within the budget; None if none is within it.

    The standard error is that of the difference to the best, paired by clip. One of them is the usual margin for
    "as good, but simpler" (Breiman et al. 1984, "Classification and Regression Trees", 3.4.3); a wider one would let
    few clips excuse any setting.
    """
    within = [outcome for outcome in outcomes if outcome.rate <= budget]
    if not within:
        return None
    best = max(within, key=lambda outcome: (outcome.mean, -outcome.rate))
    return min((o for o in within if best.mean - o.mean <= _standard_error(best, o)), key=lambda o: (o.rate, -o.mean))


def _standard_error(best: Outcome, other: Outcome) -> float:
    """Of the difference in mean quality, paired by clip (delta method: a mean over attributes of ratios)."""
    differences = best.quality - other.quality
    known = np.isfinite(differences)
    clips = known.sum(axis=0)
    centred = np.where(known, differences - np.nansum(differences, axis=0) / np.maximum(clips, 1), 0.0)
    influence = (centred / np.sqrt(np.maximum(clips * (clips - 1), 1))).sum(axis=1) / max((clips > 0).sum(), 1)
    return float(np.sqrt((influence**2).sum()))
