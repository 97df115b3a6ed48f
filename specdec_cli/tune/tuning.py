"""`tune`: everything from clips to a frontier, a recommendation and a gate file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import GateFile
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.format import points, with_ends
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.tune.choosing import certified, recommended, worth_certifying, worth_confirming
from specdec_cli.tune.outcomes import Baselines, CaptionQuality, SettingOutcome, Tuning
from specdec_cli.tune.recording import StoredRecordings
from specdec_cli.tune.tuner import Tuner, split
from specdec_cli.tune.tuning_plan import TuningPlan, require_clips


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
    swept = tuner.sweep(halves.fitting, quality)
    if plan.risk is None:
        chosen = worth_confirming(swept, plan.budget, plan.cost)
    else:
        chosen = worth_certifying(swept, plan.risk, plan.cost)
    runs, held_out = tuner.confirm(chosen, halves.held_out, quality)
    if not held_out:
        raise ConfigError("no clip could be captioned in the confirming runs", hint="Their errors are above.")
    edge, cloud = (quality.table(held_out, [getattr(t, side).ids for t in held_out]) for side in ("edge", "cloud"))
    alone = Baselines(edge, cloud, Resampler(len(held_out), seed=plan.seed))
    ends = alone.gap(alone.cloud)
    if ends is None:
        raise ConfigError(
            "no reference covers the clips that settings are confirmed on",
            hint="Look at the column that names the files (--file-column), or leave the references out.",
        )
    if plan.risk is not None:
        best, guarantee = certified(runs, plan.risk, plan.budget, plan.cost)
    else:
        best, guarantee = recommended(runs, alone, plan.budget, plan.cost) if ends.closed else None, None
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
        confirmed=tuple(outcome.point(alone) for outcome in runs),
        recommended=best.point(alone) if best else None,
        reason=None if best else _reason(ends, plan, runs, alone),
        notes=tuner.notes,
        learned=tuner.fitted.figures if tuner.fitted else None,
    )
    return tuning, tuner.gate_file(best.candidate, _origin(captioner, tuning)) if best else None


def _reason(ends: GapClosed, plan: TuningPlan, runs: Sequence[SettingOutcome], alone: Baselines) -> str:
    """Why nothing is recommended."""
    budget = f"a budget of {plan.cost}={plan.budget:g}"
    within = [run for run in runs if run.share(plan.cost) <= plan.budget]
    best = alone.gap(max(within, key=lambda run: run.mean).quality) if within else None
    if plan.risk is not None:
        reason = f"No setting within {budget} is certified to keep to a risk of {100 * plan.risk:g}%"
    elif ends.closed is None:
        reason = "The cloud is not measurably better than the edge on these clips, so there is nothing to gain"
    elif best is None:
        reason = f"No setting keeps to {budget}"
    else:
        gain = with_ends(best.gain, points, " points")
        reason = f"No setting within {budget} is measurably better than the edge alone: the best gains {gain}"
    return f"{reason}. Tune on more recordings{', or with a larger --risk' if plan.risk else ''}, or use --mode edge."


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """What a gate file records about where it comes from."""
    best, config = tuning.recommended, captioner.config
    assert best is not None  # nothing is written without a recommendation
    return {
        "specdec": __version__,
        "edge": config.edge and config.edge.model,
        "cloud": config.cloud and config.cloud.label,
        "weights": captioner.setup.models.weights,
        "language": config.prompt.language,
        **tuning.model_dump(mode="json", include={"fitted_on", "confirmed_on", "split_by", "measure"}),
        "budget": {tuning.cost: tuning.budget},
        "spent": {cost: round(share, 4) for cost, share in best.spent.items() if share is not None},
        "gap_closed": round(best.gap_closed.value, 4) if best.gap_closed else None,
        **({"guarantee": tuning.risk.model_dump()} if tuning.risk else {}),
        **({"learned": tuning.learned} if best.gate == "learned" else {}),
    }
