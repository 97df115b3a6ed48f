"""`tune`: everything from clips to a frontier, a recommendation and a gate file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import GateFile
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.bootstrap import Resampler, Values
from specdec_cli.evaluate.frontier import Oracle, oracle, oracle_curves
from specdec_cli.evaluate.gap import GapClosed, measure_gap
from specdec_cli.format import points, with_ends
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.tune.candidates import RATES
from specdec_cli.tune.measure import CaptionQuality, Parts
from specdec_cli.tune.outcomes import (
    SettingOutcome,
    TunedPoint,
    Tuning,
    clips_needed,
    measurably_better,
    recommended,
    worth_confirming,
)
from specdec_cli.tune.risk import RATES as RISK_RATES
from specdec_cli.tune.risk import Certified, certify, with_everything, worth_certifying
from specdec_cli.tune.stored_recordings import StoredRecordings
from specdec_cli.tune.trace import Trace
from specdec_cli.tune.tuner import Tuner, split
from specdec_cli.tune.tuning_plan import TuningPlan, left_out, require_certifiable, require_clips, require_tunable
from specdec_cli.types import Cost

BUDGETS: Final[Mapping[Cost, str]] = {
    "blocks": "of the blocks",
    "clips": "of the clips",
    "time": "of cloud-only's time in the cloud",
}
"""What a budget is a share of."""


def tune(
    captioner: Captioner,
    plan: TuningPlan,
    clips: Mapping[str, str],
    find: Callable[[str], Reference | None],
    lexicon: Lexicon,
    journal: StoredRecordings,
    watch: Watch,
) -> tuple[Tuning, GateFile | None]:
    """Records clips, sweeps gates over the traces of one half, and confirms the best of them on the other.

    Args:
        captioner: with both models, in hybrid mode, greedy.
        clips: SHA-256 -> path.
        find: the reference of a path, or None.

    Returns:
        What was found, and the recommended setting as a gate file; None where nothing can be recommended.

    Raises:
        ConfigError: what `require_tunable` refuses; too few clips can be recorded, or the cloud changes too little to
            fit the learned gate where there is no other.
        TranscriptError: the journal's file cannot be written.
    """
    require_tunable(captioner.config, plan.gates, len(clips), plan.risk)
    tuner = Tuner(captioner, plan, journal, watch)
    traces = tuner.record(clips)
    require_clips(len(traces))
    references = {trace.sha256: reference for trace in traces if (reference := find(trace.file)) is not None}
    quality = CaptionQuality(lexicon, references, captioner.config.prompt.language, captioner.decode)
    halves = split(traces, references, plan.seed)
    tuner.fit(halves, quality)
    if plan.risk is not None:
        require_certifiable(plan.risk, len(halves.held_out), len(traces))
    parts = tuner.time(halves.held_out)
    if plan.cost == "time" and parts is None:
        raise ConfigError("--budget time=... needs the cloud's times, and this cloud does not say what it spent")
    swept, exact = tuner.sweep(halves.fitting, quality, parts, RATES if plan.risk is None else RISK_RATES)
    if plan.risk is None:
        chosen = worth_confirming(swept, plan.budget, plan.cost)
    else:
        chosen = worth_certifying(swept, plan.risk, plan.cost)
    runs, held_out = tuner.confirm(chosen, halves.held_out, quality)
    if not held_out:
        raise ConfigError("no clip could be captioned in the confirming runs", hint="Their errors are above.")
    estimating, confirming = (Resampler(len(half), seed=plan.seed) for half in (halves.fitting, held_out))
    edge, cloud = _baselines(held_out, quality)
    ends = measure_gap(edge, cloud, cloud, confirming)
    if ends is None:
        raise ConfigError(
            "no reference tells anything about the clips that settings are confirmed on",
            hint="Look at the column that names the files (--file-column), or leave the references out.",
        )
    guarantee = None
    if plan.risk is not None:
        best, guarantee = _certified(runs, plan)
    else:
        better = measurably_better(runs, edge, cloud, confirming) if ends.closed else []
        best = recommended(better, plan.budget, plan.cost)
    k = best.candidate.k if best else plan.ks[0]
    oracles: dict[int, Oracle] = {}
    if quality.measure == "labels":
        oracles = {each: _oracle(edge, cloud, held_out, each, parts, runs) for each in plan.ks}
    tuning = Tuning(
        measure=quality.measure,
        clips=len(traces),
        fitted_on=len(halves.fitting),
        confirmed_on=len(held_out),
        split_by=halves.by,
        cost=plan.cost,
        budget=plan.budget,
        risk=guarantee,
        edge_quality=ends.edge,
        cloud_quality=ends.cloud,
        gap=ends.gap,
        parts=parts,
        replays_exact=exact,
        estimated=_points(swept, *_baselines(halves.fitting, quality), {}, estimating),
        confirmed=_points(runs, edge, cloud, oracles, confirming),
        recommended=best.point(edge, cloud, oracles.get(k), confirming) if best else None,
        reason=None if best else _reason(ends, plan, _largest_gain(runs, plan, edge, cloud, confirming)),
        oracles=oracle_curves(oracles[k]) if oracles else [],
        notes=[*left_out(plan.gates), *tuner.notes],
        learned=tuner.fitted.figures if tuner.fitted else None,
    )
    return tuning, tuner.gate_file(best.candidate, _origin(captioner, tuning)) if best else None


def _baselines(traces: Sequence[Trace], quality: CaptionQuality) -> tuple[Values, Values]:
    """Quality of the edge alone and of the cloud alone [clips, attributes]."""
    edge = quality.table(traces, [trace.edge.ids for trace in traces])
    return edge, quality.table(traces, [trace.cloud.ids for trace in traces])


def _points(
    outcomes: Sequence[SettingOutcome], edge: Values, cloud: Values, oracles: Mapping[int, Oracle], resampler: Resampler
) -> tuple[TunedPoint, ...]:
    points = (outcome.point(edge, cloud, oracles.get(outcome.candidate.k), resampler) for outcome in outcomes)
    return tuple(sorted(points, key=lambda point: (point.gate, point.wake is not None, point.spent["clips"] or 0.0)))


def _oracle(
    edge: Values, cloud: Values, traces: Sequence[Trace], k: int, parts: Parts | None, runs: Sequence[SettingOutcome]
) -> Oracle:
    """The oracle of these clips, with blocks of `k` tokens."""
    blocks = np.array([math.ceil(len(trace.edge.ids) / k) for trace in traces], float)
    alone_ms = next((run.alone_ms for run in runs if run.alone_ms is not None), np.full(len(traces), np.nan))
    prefill_ms = np.full(len(traces), parts.prefill_ms if parts else np.nan)
    return oracle(edge, cloud, blocks, prefill_ms, parts.verification_ms if parts else None, alone_ms)


def _certified(runs: Sequence[SettingOutcome], plan: TuningPlan) -> tuple[SettingOutcome | None, Certified | None]:
    """The last setting that keeps to the risk, and its guarantee, if it keeps to the budget as well."""
    losses = [run.differing for run in runs if run.differing is not None]
    found = certify(with_everything(np.stack(losses, axis=1)), plan.risk or 0.0) if losses else None
    if found is None or found[0] == 0 or runs[found[0] - 1].share(plan.cost) > plan.budget:
        return None, None
    return runs[found[0] - 1], found[1]


def _largest_gain(
    runs: Sequence[SettingOutcome], plan: TuningPlan, edge: Values, cloud: Values, resampler: Resampler
) -> GapClosed | None:
    """The gain over the edge of the best confirmed setting within the budget; None if none is within it."""
    best = max((run for run in runs if run.share(plan.cost) <= plan.budget), key=lambda run: run.mean, default=None)
    return None if best is None else measure_gap(edge, best.quality, cloud, resampler)


def _reason(ends: GapClosed, plan: TuningPlan, best: GapClosed | None) -> str:
    """Why nothing is recommended, and how many clips it would take at this variance."""
    budget = f"{100 * plan.budget:.1f}% {BUDGETS[plan.cost]}"
    if plan.risk is not None:
        return (
            f"No setting below escalating everything is certified to keep to a risk of {100 * plan.risk:g}%"
            f"{f' within {budget}' if plan.budget < 1 else ''}. Try more clips or a larger --risk."
        )
    if ends.closed is None:
        more = _more_clips(clips_needed(ends.gap, ends.clips))
        return f"The cloud is not measurably better than the edge on these clips, so there is nothing to gain. {more}"
    if best is None:
        return f"No setting keeps to {budget}. Try more clips or a larger --budget."
    gain = with_ends(best.gain, points, " points")
    more = _more_clips(clips_needed(best.gain, best.clips))
    return f"No setting within {budget} is measurably better than the edge alone: the best gains {gain}. {more}"


def _more_clips(confirming: int | None) -> str:
    """Half of the clips confirm settings, so that twice as many are needed."""
    if confirming is None:
        return "Use --mode edge, or tune on more recordings."
    return f"At this variance it would take about {2 * confirming:,} clips to tell; otherwise use --mode edge."


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """What a gate file says about where it comes from."""
    best = tuning.recommended
    assert best is not None  # nothing is written without a recommendation
    return {
        "specdec": __version__,
        "edge": captioner.config.edge.model if captioner.config.edge else None,
        "cloud": captioner.config.cloud.label if captioner.config.cloud else None,
        "weights": captioner.setup.models.weights,
        "language": captioner.config.prompt.language,
        "clips": tuning.fitted_on,
        "confirmed_on": tuning.confirmed_on,
        "split_by": tuning.split_by,
        "measure": tuning.measure,
        "budget": {tuning.cost: tuning.budget},
        "spent": {cost: round(share, 4) for cost, share in best.spent.items() if share is not None},
        "gap_closed": round(best.gap_closed.value, 4) if best.gap_closed else None,
        **({"guarantee": tuning.risk.model_dump()} if tuning.risk else {}),
        **({"learned": tuning.learned} if tuning.learned and best.gate == "learned" else {}),
    }
