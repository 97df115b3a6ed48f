"""Which settings are worth a run, and which of those that were run is recommended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specdec_cli.evaluate.bootstrap import Values
from specdec_cli.tune.outcomes import Baselines, SettingOutcome
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.risk import Certified, certify
from specdec_cli.types import LOW_IS_UNSURE, Cost


def worth_confirming(outcomes: Sequence[SettingOutcome], budget: float, cost: Cost) -> list[Candidate]:
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


def worth_certifying(outcomes: Sequence[SettingOutcome], alpha: float, cost: Cost) -> list[Candidate]:
    """The settings to run and to certify, that which escalates most first.

    Of the gate, k and way of drafting whose last setting within the risk spends least, by replays: that setting, and up
    to two on either side of it.
    """
    families: dict[Candidate, list[SettingOutcome]] = defaultdict(list)
    for outcome in outcomes:
        candidate = outcome.candidate
        if candidate.gate != "random":
            family = replace(candidate, wake=0.0) if candidate.deferred else replace(candidate, threshold=0.0)
            families[family].append(outcome)
    found: list[tuple[float, list[Candidate]]] = []
    for family, members in families.items():
        members.sort(key=_threshold, reverse=family.gate in LOW_IS_UNSURE)
        last, _ = certify(_losses(members), alpha) or (0, None)
        spent = members[last - 1].share(cost) if last else 1.0
        found.append((spent, [outcome.candidate for outcome in members[max(last - 3, 0) : last + 2]]))
    return min(found, key=lambda each: each[0])[1] if found else []


def certified(
    runs: Sequence[SettingOutcome], alpha: float, budget: float, cost: Cost
) -> tuple[SettingOutcome | None, Certified | None]:
    """The last setting that keeps to the risk, and its guarantee, if it keeps to the budget as well."""
    last, guarantee = (certify(_losses(runs), alpha) if runs else None) or (0, None)
    if last == 0 or runs[last - 1].share(cost) > budget:
        return None, None
    return runs[last - 1], guarantee


def measurably_better(outcomes: Sequence[SettingOutcome], alone: Baselines) -> list[SettingOutcome]:
    """The settings whose gain over the edge alone is certain: its interval lies above 0."""
    found = [(outcome, alone.gap(outcome.quality)) for outcome in outcomes]
    return [outcome for outcome, gap in found if gap is not None and (gap.gain.low or 0.0) > 0]


def recommended(outcomes: Sequence[SettingOutcome], budget: float, cost: Cost) -> SettingOutcome | None:
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


def _threshold(outcome: SettingOutcome) -> float:
    """The threshold that was searched for."""
    candidate = outcome.candidate
    return candidate.threshold if candidate.wake is None else candidate.wake


def _losses(outcomes: Sequence[SettingOutcome]) -> Values:
    """[clips, settings]"""
    return np.stack([outcome.differing for outcome in outcomes], axis=1)


def _standard_error(best: SettingOutcome, other: SettingOutcome) -> float:
    """Of the difference in mean quality, paired by clip (delta method: a mean over attributes of ratios)."""
    differences = best.quality - other.quality
    known = np.isfinite(differences)
    clips = known.sum(axis=0)
    centred = np.where(known, differences - np.nansum(differences, axis=0) / np.maximum(clips, 1), 0.0)
    influence = (centred / np.sqrt(np.maximum(clips * (clips - 1), 1))).sum(axis=1) / max((clips > 0).sum(), 1)
    return float(np.sqrt((influence**2).sum()))
