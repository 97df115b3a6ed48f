"""`tune`: everything from clips to a frontier, a recommendation and a gate file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import GateFile
from specdec_cli.errors import ConfigError
from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics import Reference, Resampler, Values, measure_gap
from specdec_cli.tune.frontier import FrontierPoint, Outcome, recommended, worth_confirming
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.quality import Yardstick
from specdec_cli.tune.recording import Recording
from specdec_cli.tune.result import Tuning
from specdec_cli.tune.tuner import Plan, Tuner, Watch, split

FEWEST: Final = 8
"""Clips below which halves of them say nothing."""


def tune(
    captioner: Captioner,
    plan: Plan,
    clips: Mapping[str, str],
    find: Callable[[str], Reference | None],
    lexicon: Lexicon,
    journal: Journal,
    watch: Watch,
) -> tuple[Tuning, GateFile | None]:
    """Records clips, sweeps gates over the recordings of one half, and confirms the best of them on the other.

    Args:
        captioner: with both models, in hybrid mode, greedy.
        plan: what to try.
        clips: SHA-256 -> path.
        find: the reference of a path, or None.
        lexicon: reads classes from captions.
        journal: what was recorded and run before.
        watch: told how far it is.

    Returns:
        What was found, and the recommended setting as a gate file; None where nothing can be recommended.

    Raises:
        ConfigError: too few clips can be recorded, or too little changes to fit the learned gate.
        TranscriptError: the journal's file cannot be written.
    """
    tuner = Tuner(captioner, plan, journal, watch)
    recordings = tuner.record(clips)
    if len(recordings) < FEWEST:
        raise ConfigError(
            f"{len(recordings)} clips could be recorded, and tuning needs at least {FEWEST}",
            hint="Half of them choose the settings, the other half confirms them. A hundred is a good number.",
        )
    references = {r.sha256: reference for r in recordings if (reference := find(r.file)) is not None}
    yardstick = Yardstick(lexicon, references, captioner.config.prompt.language, captioner.decode)
    halves = split(recordings, references, plan.seed)
    classifier = tuner.fit(halves, yardstick)
    swept, exact = tuner.sweep(halves.fitting, yardstick, classifier)
    chosen = worth_confirming(swept, plan.budget)
    with TemporaryDirectory(prefix="specdec-tune-") as folder:
        weights = None
        if classifier is not None:
            weights = Path(folder) / "gate.json"
            weights.write_text(_gate_file(tuner, None, plan, {}).to_json(), encoding="utf-8")
        runs, held_out = tuner.confirm(chosen, halves.held_out, yardstick, weights)
    if not held_out:
        raise ConfigError("no clip could be captioned in the confirming runs", hint="Their errors are above.")
    edge, cloud = _baselines(held_out, yardstick)
    estimating, resampler = (Resampler(len(half), seed=plan.seed) for half in (halves.fitting, held_out))
    found = measure_gap(edge, cloud, cloud, resampler)
    if found is None:
        raise ConfigError(
            "no reference tells anything about the clips that settings are confirmed on",
            hint="Look at the column that names the files (--file-column), or leave the references out.",
        )
    best = recommended(runs, plan.budget) if found.closed else None
    tuning = Tuning(
        measure=yardstick.measure,
        clips=len(recordings),
        fitted_on=len(halves.fitting),
        confirmed_on=len(held_out),
        split_by=halves.by,
        budget=plan.budget,
        edge_quality=found.edge,
        cloud_quality=found.cloud,
        gap=found.gap,
        replays_exact=exact,
        estimated=_points(swept, *_baselines(halves.fitting, yardstick), estimating),
        confirmed=_points(runs, edge, cloud, resampler),
        recommended=best.point(edge, cloud, resampler) if best else None,
        learned=tuner.fitted.figures if tuner.fitted else None,
    )
    return tuning, _gate_file(tuner, best, plan, _origin(captioner, tuning)) if best else None


def _baselines(recordings: Sequence[Recording], yardstick: Yardstick) -> tuple[Values, Values]:
    """Quality of the edge alone and of the cloud alone [clips, attributes]."""
    edge = yardstick.table(recordings, (recording.edge.ids for recording in recordings))
    return edge, yardstick.table(recordings, (recording.cloud.ids for recording in recordings))


def _points(
    outcomes: Sequence[Outcome], edge: Values, cloud: Values, resampler: Resampler
) -> tuple[FrontierPoint, ...]:
    points = (outcome.point(edge, cloud, resampler) for outcome in outcomes)
    return tuple(sorted(points, key=lambda point: (point.gate, point.escalation_rate)))


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
        "budget": tuning.budget,
        "escalation_rate": round(best.escalation_rate, 4),
        "gap_closed": round(best.gap_closed.value, 4) if best.gap_closed else None,
        **({"learned": tuning.learned} if tuning.learned and best.gate == "learned" else {}),
    }


def _gate_file(tuner: Tuner, best: Outcome | None, plan: Plan, origin: dict[str, Any]) -> GateFile:
    """The gate file of a setting; of the fitted classifier with no setting yet if `best` is None."""
    gate = best.candidate.gate if best else "learned"
    if gate in ("always", "never"):
        raise ValueError(f"the gate {gate} has nothing to tune")
    return GateFile.model_validate(
        {
            "gate": gate,
            "threshold": best.candidate.threshold if best else 0.5,
            "k": best.candidate.k if best else plan.ks[0],
            "stop_drafting": best.candidate.stop_drafting if best else False,
            "tokenizer": tuner.tokenizer,
            "fitted_on": origin,
            "learned": tuner.fitted.weights if tuner.fitted and gate == "learned" else None,
        }
    )
