"""`tune`: everything from clips to a frontier, a recommendation and a gate file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import GateFile
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.references import Reference
from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics.bootstrap import Resampler, Values
from specdec_cli.metrics.frontier import Oracle, oracle, oracle_curves
from specdec_cli.metrics.gap import GapClosed, measure_gap
from specdec_cli.store import Watch
from specdec_cli.tune.candidates import RATES
from specdec_cli.tune.frontier import FrontierPoint, Outcome, Tuning, recommended, worth_confirming
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.plan import Plan, left_out, require_certifiable, require_clips, require_tunable
from specdec_cli.tune.quality import Yardstick
from specdec_cli.tune.risk import RATES as RISK_RATES
from specdec_cli.tune.risk import Certified, certify, with_everything, worth_certifying
from specdec_cli.tune.spending import Parts
from specdec_cli.tune.trace import Trace
from specdec_cli.tune.tuner import Tuner, split
from specdec_cli.types import Cost

BUDGETS: Final[Mapping[Cost, str]] = {
    "blocks": "of the blocks",
    "clips": "of the clips",
    "time": "of cloud-only's time in the cloud",
}
"""What a budget is a share of."""


def tune(
    captioner: Captioner,
    plan: Plan,
    clips: Mapping[str, str],
    find: Callable[[str], Reference | None],
    lexicon: Lexicon,
    journal: Journal,
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
    yardstick = Yardstick(lexicon, references, captioner.config.prompt.language, captioner.decode)
    halves = split(traces, references, plan.seed)
    classifier = tuner.fit(halves, yardstick)
    if plan.risk is not None:
        require_certifiable(plan.risk, len(halves.held_out), len(traces))
    parts = tuner.time(halves.held_out)
    if plan.cost == "time" and parts is None:
        raise ConfigError("--budget time=... needs the cloud's times, and this cloud does not say what it spent")
    rates = RATES if plan.risk is None else RISK_RATES
    swept, exact = tuner.sweep(halves.fitting, yardstick, classifier, parts, rates)
    if plan.risk is None:
        chosen = worth_confirming(swept, plan.budget, plan.cost)
    else:
        chosen = worth_certifying(swept, plan.risk, plan.cost)
    with TemporaryDirectory(prefix="specdec-tune-") as folder:
        weights = None
        if classifier is not None:
            weights = Path(folder) / "gate.json"
            weights.write_text(_gate_file(tuner, None, plan, {}).to_json(), encoding="utf-8")
        runs, held_out = tuner.confirm(chosen, halves.held_out, yardstick, weights)
    if not held_out:
        raise ConfigError("no clip could be captioned in the confirming runs", hint="Their errors are above.")
    estimating, confirming = (Resampler(len(half), seed=plan.seed) for half in (halves.fitting, held_out))
    edge, cloud = _baselines(held_out, yardstick)
    ends = measure_gap(edge, cloud, cloud, confirming)
    if ends is None:
        raise ConfigError(
            "no reference tells anything about the clips that settings are confirmed on",
            hint="Look at the column that names the files (--file-column), or leave the references out.",
        )
    best, guarantee = (recommended(runs, plan.budget, plan.cost) if ends.closed else None), None
    if plan.risk is not None:
        best, guarantee = _certified(runs, plan)
    k = best.candidate.k if best else plan.ks[0]

    def best_possible(k: int) -> Oracle | None:
        return _oracle(edge, cloud, held_out, k, parts, runs) if yardstick.measure == "labels" else None

    tuning = Tuning(
        measure=yardstick.measure,
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
        estimated=_points(swept, *_baselines(halves.fitting, yardstick), None, estimating),
        confirmed=_points(runs, edge, cloud, best_possible, confirming),
        recommended=best.point(edge, cloud, best_possible(k), confirming) if best else None,
        reason=None if best else _reason(ends, plan),
        oracles=oracle_curves(found) if (found := best_possible(k)) else [],
        notes=[*left_out(plan.gates), *tuner.notes],
        learned=tuner.fitted.figures if tuner.fitted else None,
    )
    return tuning, _gate_file(tuner, best, plan, _origin(captioner, tuning)) if best else None


def _baselines(traces: Sequence[Trace], yardstick: Yardstick) -> tuple[Values, Values]:
    """Quality of the edge alone and of the cloud alone [clips, attributes]."""
    edge = yardstick.table(traces, [trace.edge.ids for trace in traces])
    return edge, yardstick.table(traces, [trace.cloud.ids for trace in traces])


def _points(
    outcomes: Sequence[Outcome],
    edge: Values,
    cloud: Values,
    best_possible: Callable[[int], Oracle | None] | None,
    resampler: Resampler,
) -> tuple[FrontierPoint, ...]:
    points = (
        outcome.point(edge, cloud, best_possible(outcome.candidate.k) if best_possible else None, resampler)
        for outcome in outcomes
    )
    return tuple(sorted(points, key=lambda point: (point.gate, point.wake is not None, point.spent["clips"] or 0.0)))


def _oracle(
    edge: Values, cloud: Values, traces: Sequence[Trace], k: int, parts: Parts | None, runs: Sequence[Outcome]
) -> Oracle:
    """The oracle of these clips, with blocks of `k` tokens."""
    blocks = np.array([math.ceil(len(trace.edge.ids) / k) for trace in traces], float)
    alone_ms = next((run.alone_ms for run in runs if run.alone_ms is not None), np.full(len(traces), np.nan))
    prefill_ms = np.full(len(traces), parts.prefill_ms if parts else np.nan)
    return oracle(edge, cloud, blocks, prefill_ms, parts.verification_ms if parts else None, alone_ms)


def _certified(runs: Sequence[Outcome], plan: Plan) -> tuple[Outcome | None, Certified | None]:
    """The last setting that keeps to the risk, and its guarantee, if it keeps to the budget as well."""
    losses = [run.differing for run in runs if run.differing is not None]
    found = certify(with_everything(np.stack(losses, axis=1)), plan.risk or 0.0) if losses else None
    if found is None or found[0] == 0 or runs[found[0] - 1].share(plan.cost) > plan.budget:
        return None, None
    return runs[found[0] - 1], found[1]


def _reason(ends: GapClosed, plan: Plan) -> str:
    """Why nothing is recommended."""
    budget = f"{100 * plan.budget:.1f}% {BUDGETS[plan.cost]}"
    if plan.risk is not None:
        return (
            f"No setting below escalating everything is certified to keep to a risk of {100 * plan.risk:g}%"
            f"{f' within {budget}' if plan.budget < 1 else ''}. Try more clips or a larger --risk."
        )
    if ends.closed is None:
        return (
            "The cloud is not measurably better than the edge on these clips, so no gain by escalation is certain. "
            "More clips may tell; otherwise use --mode edge."
        )
    return f"No setting keeps to {budget}. Try more clips or a larger --budget."


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """What a gate file says about where it comes from."""
    best = tuning.recommended
    assert best is not None  # nothing is written without a recommendation
    return {
        "specdec": __version__,
        "edge": captioner.config.edge.model,
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


def _gate_file(tuner: Tuner, best: Outcome | None, plan: Plan, origin: dict[str, Any]) -> GateFile:
    """The gate file of a setting; of the fitted classifier with no setting yet if `best` is None."""
    gate = best.candidate.gate if best else "learned"
    if gate in ("always", "never"):
        raise ValueError(f"the gate {gate} has nothing to tune")
    wake = best.candidate.wake if best else 0.5 if tuner.waking else None
    return GateFile.model_validate(
        {
            "gate": gate,
            "threshold": best.candidate.threshold if best else 0.5,
            "k": best.candidate.k if best else plan.ks[0],
            "stop_drafting": best.candidate.stop_drafting if best else False,
            "defer": best.candidate.deferred if best else False,
            "wake": wake,
            "tokenizer": tuner.tokenizer,
            "fitted_on": origin,
            "learned": tuner.fitted.weights if tuner.fitted and gate == "learned" else None,
            "waking": tuner.waking.weights if tuner.waking and gate == "learned" and wake is not None else None,
        }
    )
