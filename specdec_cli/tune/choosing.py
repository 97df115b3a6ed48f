"""Which settings are run, and which one is recommended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from specdec_cli.stats import Values, difference, mean
from specdec_cli.tune.outcomes import Baselines, SettingOutcome
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.risk import Certified, certify
from specdec_cli.tune.tuning_plan import TuningPlan
from specdec_cli.types import Cost


def worth_running(outcomes: Sequence[SettingOutcome], plan: TuningPlan) -> list[Candidate]:
    """The settings to run: of each gate the best by replays within a third, two thirds and all of the budget.

    With a risk, the settings to certify.
    """
    if plan.risk is not None:
        return _worth_certifying(outcomes, plan.risk, plan.cost)
    found: list[Candidate] = []
    for gate in dict.fromkeys(outcome.candidate.gate for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.candidate.gate == gate]
        for share in (1 / 3, 2 / 3, 1.0):
            if within := [outcome for outcome in mine if outcome.share(plan.cost) <= plan.budget * share]:
                best = max(within, key=lambda outcome: (round(outcome.mean, 6), -outcome.share(plan.cost)))
                found.append(best.candidate)
    return list(dict.fromkeys(found))


def _worth_certifying(outcomes: Sequence[SettingOutcome], alpha: float, cost: Cost) -> list[Candidate]:
    """The settings to run and to certify; the one that escalates most is first.

    Of the gate, k and way of drafting whose last setting within the risk spends least, by replays: that setting, up to
    four that escalate more, and one that escalates less.
    """
    families: dict[tuple[object, ...], list[SettingOutcome]] = defaultdict(list)
    for outcome in outcomes:
        setting = outcome.candidate
        if setting.gate != "random":
            families[setting.gate, setting.k, setting.deferred].insert(0, outcome)  # the last threshold escalates most
    found: list[tuple[float, list[Candidate]]] = []
    for members in families.values():
        members.sort(key=lambda outcome: -outcome.escalations.sum())
        last, _ = certify(_losses(members), alpha) or (0, None)
        spent = members[last - 1].share(cost) if last else 1.0
        found.append((spent, [outcome.candidate for outcome in members[max(last - 5, 0) : last + 1]]))
    return min(found, key=lambda each: each[0])[1] if found else []


def best_of(
    runs: Sequence[SettingOutcome], alone: Baselines, plan: TuningPlan
) -> tuple[SettingOutcome | None, Certified | None]:
    """The recommended setting, None if there is none, and its guarantee if there is a risk.

    With a risk, the last certified setting is recommended if it keeps to the budget. Without one, settings count that
    keep to the budget and whose gain over the edge alone is certain (its interval lies above 0), but none of the random
    gate; of those within one standard error of the best quality the setting that spends least is recommended.

    The standard error is that of the difference to the best, paired by clip. One of them is the usual margin for
    "as good, but simpler" (Breiman et al. 1984, "Classification and Regression Trees", 3.4.3); a wider one would let
    few clips excuse any setting.
    """
    if plan.risk is not None:
        last, guarantee = (certify(_losses(runs), plan.risk) if runs else None) or (0, None)
        kept = last > 0 and runs[last - 1].share(plan.cost) <= plan.budget
        return (runs[last - 1], guarantee) if kept else (None, None)
    usable = (run for run in runs if run.candidate.gate != "random" and run.share(plan.cost) <= plan.budget)
    within = [run for run in usable if (alone.gap(run.quality).gain.low or 0.0) > 0]
    if not within:
        return None, None
    best = max(within, key=lambda run: (run.mean, -run.share(plan.cost)))

    def as_good(run: SettingOutcome) -> bool:
        found = alone.resampler.interval(difference(mean(best.quality), mean(run.quality)))
        if found is None or found.low is None or found.high is None:
            return False
        return found.value <= (found.high - found.low) / 3.92  # a 95% interval is that many standard errors wide

    as_good_ones = (run for run in within if run is best or as_good(run))
    return min(as_good_ones, key=lambda run: (run.share(plan.cost), -run.mean)), None


def _losses(outcomes: Sequence[SettingOutcome]) -> Values:
    """[clips, settings]"""
    return np.stack([outcome.differing for outcome in outcomes], axis=1)
