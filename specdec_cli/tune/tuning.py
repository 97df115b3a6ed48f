"""`tune`: everything from clips to a frontier, a recommendation and a gate file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import GateFile
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.frontier import Oracle, oracle, oracle_curves
from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.format import points, with_ends
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.tune.choosing import certified, measurably_better, recommended, worth_certifying, worth_confirming
from specdec_cli.tune.measure import CaptionQuality, Parts
from specdec_cli.tune.outcomes import Baselines, SettingOutcome, TunedPoint, Tuning
from specdec_cli.tune.recording import Trace
from specdec_cli.tune.replay import RATES
from specdec_cli.tune.stored_recordings import StoredRecordings
from specdec_cli.tune.tuner import Tuner, split
from specdec_cli.tune.tuning_plan import INSTALL, TuningPlan, require_clips

_RISK_RATES: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5, 0.6, 0.8)
"""Shares of the blocks that thresholds are chosen for where a risk is certified, which takes many escalations."""


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
        captioner: with both models, in hybrid mode, greedy; with a configuration that `require_tunable` accepts.
        clips: SHA-256 -> path.
        find: the reference of a path, or None.

    Returns:
        What was found, and the recommended setting as a gate file; None where nothing can be recommended.

    Raises:
        ConfigError: too few clips can be recorded, or the cloud changes too little to fit the learned gate where there
            is no other.
        TranscriptError: the journal's file cannot be written.
    """
    tuner = Tuner(captioner, plan, journal, watch)
    traces = tuner.record(clips)
    require_clips(len(traces))
    references = {trace.sha256: reference for trace in traces if (reference := find(trace.file)) is not None}
    quality = CaptionQuality(lexicon, references, captioner.config.prompt.language, captioner.decode)
    halves = split(traces, references, plan.seed)
    tuner.fit(halves, quality)
    parts = tuner.time(halves.held_out)
    if plan.cost == "time" and parts is None:
        raise ConfigError("--budget time=... needs the cloud's times, and this cloud does not report them")
    swept = tuner.sweep(halves.fitting, quality, parts, RATES if plan.risk is None else _RISK_RATES)
    if plan.risk is None:
        chosen = worth_confirming(swept, plan.budget, plan.cost)
    else:
        chosen = worth_certifying(swept, plan.risk, plan.cost)
    runs, held_out = tuner.confirm(chosen, halves.held_out, quality)
    if not held_out:
        raise ConfigError("no clip could be captioned in the confirming runs", hint="Their errors are above.")
    alone = _baselines(held_out, quality, plan.seed)
    ends = alone.gap(alone.cloud)
    if ends is None:
        raise ConfigError(
            "no reference covers the clips that settings are confirmed on",
            hint="Look at the column that names the files (--file-column), or leave the references out.",
        )
    if plan.risk is not None:
        best, guarantee = certified(runs, plan.risk, plan.budget, plan.cost)
    else:
        better = measurably_better(runs, alone) if ends.closed else []
        best, guarantee = recommended(better, plan.budget, plan.cost), None
    k = best.candidate.k if best else plan.ks[0]
    oracles: dict[int, Oracle] = {}
    if quality.measure == "labels":
        oracles = {each: _oracle(alone, held_out, each, parts, runs) for each in plan.ks}
    tuning = Tuning(
        measure=quality.measure,
        clips=len(traces),
        references_found=len(references) or None,
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
        replays_exact=sum(outcome.exact for outcome in swept) / max(len(swept) * len(halves.fitting), 1),
        estimated=_points(swept, _baselines(halves.fitting, quality, plan.seed), {}),
        confirmed=_points(runs, alone, oracles),
        recommended=best.point(alone, oracles.get(k)) if best else None,
        reason=None if best else _reason(ends, plan, runs, alone),
        oracles=oracle_curves(oracles[k]) if oracles else [],
        notes=[*_left_out(plan), *tuner.notes],
        learned=tuner.fitted.figures if tuner.fitted else None,
    )
    return tuning, tuner.gate_file(best.candidate, _origin(captioner, tuning)) if best else None


def _baselines(traces: Sequence[Trace], quality: CaptionQuality, seed: int) -> Baselines:
    edge, cloud = (quality.table(traces, [getattr(t, side).ids for t in traces]) for side in ("edge", "cloud"))
    return Baselines(edge, cloud, Resampler(len(traces), seed=seed))


def _points(
    outcomes: Sequence[SettingOutcome], alone: Baselines, oracles: Mapping[int, Oracle]
) -> tuple[TunedPoint, ...]:
    found = (outcome.point(alone, oracles.get(outcome.candidate.k)) for outcome in outcomes)
    return tuple(sorted(found, key=lambda point: (point.gate, point.wake is not None, point.spent["clips"] or 0.0)))


def _oracle(
    alone: Baselines, traces: Sequence[Trace], k: int, parts: Parts | None, runs: Sequence[SettingOutcome]
) -> Oracle:
    """The oracle of these clips, with blocks of `k` tokens."""
    blocks = np.array([math.ceil(len(trace.edge.ids) / k) for trace in traces], float)
    alone_ms = runs[0].alone_ms if runs else np.full(len(traces), np.nan)
    prefill_ms = np.full(len(traces), parts.prefill_ms if parts else np.nan)
    return oracle(alone.edge, alone.cloud, blocks, prefill_ms, parts.verification_ms if parts else None, alone_ms)


def _left_out(plan: TuningPlan) -> list[str]:
    """A sentence about the learned gate where it is not tried because a package is missing."""
    if "learned" in plan.gates or find_spec("sklearn") is not None:
        return []
    return [f"The learned gate was not tried: it needs scikit-learn. Install it with: {INSTALL}"]


def _reason(ends: GapClosed, plan: TuningPlan, runs: Sequence[SettingOutcome], alone: Baselines) -> str:
    """Why nothing is recommended."""
    budget = f"a budget of {plan.cost}={plan.budget:g}"
    if plan.risk is not None:
        within = f" within {budget}" if plan.budget < 1 else ""
        return (
            f"No setting below escalating everything is certified to keep to a risk of {100 * plan.risk:g}%{within}. "
            "Try more clips or a larger --risk."
        )
    otherwise = "Tune on more recordings, or use --mode edge."
    if ends.closed is None:
        return (
            f"The cloud is not measurably better than the edge on these clips, so there is nothing to gain. {otherwise}"
        )
    within_budget = [run for run in runs if run.share(plan.cost) <= plan.budget]
    best = alone.gap(max(within_budget, key=lambda run: run.mean).quality) if within_budget else None
    if best is None:
        return f"No setting keeps to {budget}. Try more clips or a larger --budget."
    gain = with_ends(best.gain, points, " points")
    return f"No setting within {budget} is measurably better than the edge alone: the best gains {gain}. {otherwise}"


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """What a gate file records about where it comes from."""
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
