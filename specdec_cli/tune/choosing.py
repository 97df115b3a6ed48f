"""Which settings are run, and which one is recommended."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.stats import difference, mean
from specdec_cli.tune.outcomes import Baselines, SettingOutcome
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.tuning_plan import TuningPlan


def worth_running(outcomes: Sequence[SettingOutcome], plan: TuningPlan) -> list[Candidate]:
    """The settings to run: of each gate the best by replays within a third, two thirds and all of the budget."""
    found: list[Candidate] = []
    for gate in dict.fromkeys(outcome.candidate.gate for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.candidate.gate == gate]
        for share in (1 / 3, 2 / 3, 1.0):
            if within := [outcome for outcome in mine if outcome.share(plan.cost) <= plan.budget * share]:
                best = max(within, key=lambda outcome: (round(outcome.mean, 6), -outcome.share(plan.cost)))
                found.append(best.candidate)
    return list(dict.fromkeys(found))


def best_of(runs: Sequence[SettingOutcome], alone: Baselines, plan: TuningPlan) -> SettingOutcome | None:
    """The recommended setting, None if there is none.

    It keeps to the budget, its gain over the edge alone is certain (its interval is above 0), and its gate is not
    random; of those within one standard error of the best quality it is the setting that spends least.

    The standard error is that of the difference to the best, paired by clip. One of them is the usual margin for
    "as good, but simpler" (Breiman et al. 1984, "Classification and Regression Trees", 3.4.3); a wider one would let
    few clips excuse any setting.
    """
    usable = (run for run in runs if run.candidate.gate != "random" and run.share(plan.cost) <= plan.budget)
    within = [run for run in usable if (alone.gap(run.quality).gain.low or 0.0) > 0]
    if not within:
        return None
    best = max(within, key=lambda run: (run.mean, -run.share(plan.cost)))

    def as_good(run: SettingOutcome) -> bool:
        found = alone.resampler.interval(difference(mean(best.quality), mean(run.quality)))
        if found is None or found.low is None or found.high is None:
            return False
        return found.value <= (found.high - found.low) / 3.92  # a 95% interval is that many standard errors wide

    as_good_ones = (run for run in within if run is best or as_good(run))
    return min(as_good_ones, key=lambda run: (run.share(plan.cost), -run.mean))
