"""`tune`: from clips to a recommended setting and a gate file: record, fit, replay, confirm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.config.gate_file import GateFile, LearnedWeights, tokenizer_fingerprint
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.evaluate.text_scores import in_another_language
from specdec_cli.journal import Watch
from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.references import Reference, counted
from specdec_cli.stats import Interval
from specdec_cli.tune.choosing import best_of, worth_running
from specdec_cli.tune.outcomes import Baselines, CaptionQuality, SettingOutcome, Tuning, confirmed, swept
from specdec_cli.tune.recording import StoredRecordings, Trace, sound_of
from specdec_cli.tune.replay import Candidate, candidates
from specdec_cli.tune.tuning_plan import INSTALL, TuningPlan, groups_of, require_clips, split

SAID: Final = (
    "The references' texts are what was said, not descriptions of how: without classes, quality is agreement with the "
    "cloud's own captions."
)


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

    Returns what was found, and the recommended setting as a gate file, None where nothing can be recommended.

    Raises:
        ConfigError: too few clips can be recorded or compared, or the learned gate alone is tried and cannot be fitted.
        TranscriptError: the journal's file cannot be written.
    """
    traces = journal.record(captioner, clips, watch)
    require_clips(len(traces))
    references = {trace.sha256: reference for trace in traces if (reference := find(trace.file)) is not None}
    quality = CaptionQuality(lexicon, references, captioner.config.prompt.language, captioner.decode)
    split_by, groups = groups_of(traces, references)
    fitting, held_out = split(traces, groups, plan.seed)
    plan, weights, notes = _fit(plan, fitting, groups, quality)
    sounds = [sound_of(trace, captioner) for trace in fitting]
    chosen = worth_running(_sweep(plan, weights, fitting, sounds, quality, watch), plan)
    runs, held_out = _confirm(_variants(captioner, chosen, weights), held_out, quality, journal, watch)
    alone = Baselines.of(held_out, quality, plan.seed)
    ends = alone.gap(alone.cloud)
    best = best_of(runs, alone, plan) if ends.closed else None
    points = tuple(outcome.point(alone) for outcome in runs)
    gains = [point.gain for point in points if point.gate != "random"]
    largest = max(gains, key=lambda gain: gain.value, default=None)
    needed = clips_needed(ends.gap if ends.closed is None else largest, len(traces))
    language, judged = captioner.config.prompt.language, quality.measure == "labels"
    tuning = Tuning(
        measure=quality.measure,
        clips=len(traces),
        references_found=len(references) or None,
        fitted_on=len(fitting),
        confirmed_on=len(held_out),
        split_by=split_by,
        cost=plan.cost,
        budget=plan.budget,
        edge_quality=ends.edge,
        cloud_quality=ends.cloud,
        gap=ends.gap,
        confirmed=points,
        recommended=best.point(alone) if best else None,
        reason=None if best else _reason(ends, plan, needed),
        clips_needed=None if best else needed,
        attributes=sorted({name for each in references.values() for name in each.labels}) if judged else [],
        notes=[
            *notes,
            *counted(references.values()),
            *in_another_language(references.values(), language),
            *([SAID] if quality.said and not judged else []),
        ],
    )
    return tuning, _gate_file(captioner, best.candidate, weights, _origin(captioner, tuning)) if best else None


def clips_needed(difference: Interval | None, clips: int) -> int | None:
    """How many recordings would roughly show a difference, in two digits; None: the difference is 0 or below.

    The interval of a mean narrows with the root of the number of clips, which leaves it just above 0 here.
    """
    if difference is None or difference.low is None or difference.value <= 0:
        return None
    rough = clips * ((difference.value - difference.low) / difference.value) ** 2
    ten = int(10 ** max(len(str(round(rough))) - 2, 0))
    return max(math.ceil(rough / ten) * ten, clips + 1)


def _reason(ends: GapClosed, plan: TuningPlan, needed: int | None) -> str:
    reason = f"No setting within a budget of {plan.cost}={plan.budget:g} is measurably better than the edge alone"
    if ends.closed is None:
        reason = "The cloud is not measurably better than the edge on these clips, so no gain can be measured"
    if needed is None:
        return f"{reason}. If that is what it seems, more recordings like these would not change it: use --mode edge."
    return f"{reason}. If the difference is what it seems, some {needed:,} recordings would show it."


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """Where a gate file comes from, as the file records it."""
    return {
        "specdec": __version__,
        "weights": captioner.setup.models.weights,
        "language": captioner.config.prompt.language,
        **tuning.model_dump(mode="json", include={"fitted_on", "confirmed_on", "split_by", "measure"}),
        "budget": {tuning.cost: tuning.budget},
    }


def _fit(
    plan: TuningPlan, traces: Sequence[Trace], groups: Mapping[str, str], quality: CaptionQuality
) -> tuple[TuningPlan, LearnedWeights | None, list[str]]:
    """The plan with the gates that can be tried, the weights of the learned one, and what was left out and why.

    Raises:
        ConfigError: the cloud changes too little to fit the learned gate, and no other gate is to be tried.
    """
    if "learned" not in plan.gates:
        note = f"The learned gate was not tried: it needs scikit-learn. Install it with: {INSTALL}"
        return plan, None, [note] if find_spec("sklearn") is None else []
    from specdec_cli.tune import learned_gate  # needs scikit-learn

    consequences = learned_gate.Consequences(quality.classes)
    found = learned_gate.examples(traces, [groups[trace.sha256] for trace in traces], consequences)
    try:
        return plan, learned_gate.fit(found, consequences.decided(traces), seed=plan.seed), []
    except ConfigError as error:
        others = tuple(gate for gate in plan.gates if gate != "learned")
        if set(others) <= {"random"}:
            raise
        return replace(plan, gates=others), None, [f"The learned gate was not tried. {error.message}"]


def _waking(weights: LearnedWeights) -> LearnedWeights:
    """The weights for deferred drafts: of all tokens, the likeliest to be changed counts."""
    return weights.model_copy(update={"combination": "largest"})


def _sweep(
    plan: TuningPlan,
    weights: LearnedWeights | None,
    traces: Sequence[Trace],
    sounds: Sequence[Grounding | None],
    quality: CaptionQuality,
    watch: Watch,
) -> list[SettingOutcome]:
    """Every candidate replayed on every clip."""
    classifier = Classifier(weights, _waking(weights)) if weights else None
    found = list(candidates(traces, plan.gates, plan.ks, classifier, defers=plan.cost != "blocks"))
    outcomes: list[SettingOutcome] = []
    watch.begin(len(found))
    for candidate in found:
        watch.step(f"replaying {candidate.label}")
        outcomes.append(swept(candidate, traces, quality, classifier, plan.seed, sounds))
        watch.advance()
    return outcomes


def _variants(
    captioner: Captioner, chosen: Sequence[Candidate], weights: LearnedWeights | None
) -> dict[Candidate | None, Captioner]:
    """The captioners of cloud-only (None) and of each chosen candidate."""
    found: dict[Candidate | None, Captioner] = {None: captioner.variant(_decoding(captioner.config, mode="cloud"))}
    with TemporaryDirectory(prefix="specdec-tune-") as folder:
        file = Path(folder) / "gate.json"
        if weights is not None:
            learned = _gate_file(captioner, Candidate("learned", 0.5, 1, wake=0.5), weights, {})
            file.write_text(learned.to_json(), encoding="utf-8")
        return found | {each: captioner.variant(_configured(captioner.config, each, file)) for each in chosen}


def _confirm(
    variants: Mapping[Candidate | None, Captioner],
    traces: Sequence[Trace],
    quality: CaptionQuality,
    journal: StoredRecordings,
    watch: Watch,
) -> tuple[list[SettingOutcome], list[Trace]]:
    """Runs candidates and cloud-only for real, where the journal holds no such run.

    They take turns clip by clip, so that a machine that grows busy slows all of them. Returns the candidates'
    outcomes on the clips that all could caption, and these clips.
    """
    steps = [
        (f"confirming {each.label if each else 'cloud-only'} {t.file}", t.file, partial(captioner.caption, t.file))
        for t in traces
        for each, captioner in variants.items()
        if journal.run(t.sha256, captioner) is None
    ]
    journal.run_all(steps, watch)
    usable = [trace for trace in traces if all(journal.run(trace.sha256, one) for one in variants.values())]
    if not usable:
        raise ConfigError("No clip could be captioned in the confirming runs.", hint="Their errors are above.")
    runs = {
        each: [run for trace in usable if (run := journal.run(trace.sha256, captioner))]
        for each, captioner in variants.items()
    }
    return [confirmed(each, usable, quality, own, runs[None]) for each, own in runs.items() if each], usable


def _configured(config: Config, candidate: Candidate, weights: Path) -> Config:
    """`config` of a hybrid run with the candidate's gate and k; `weights` is the learned gate's file."""
    gate = {
        "name": candidate.gate,
        "threshold": candidate.threshold,
        "wake": candidate.wake,
        "stop_drafting": candidate.stop_drafting,
        "file": str(weights) if candidate.gate == "learned" else None,
    }
    config = config.model_copy(update={"gate": config.gate.model_copy(update=gate)})
    return _decoding(config, k=candidate.k, defer=candidate.deferred)


def _decoding(config: Config, **changed: object) -> Config:
    return config.model_copy(update={"decoding": config.decoding.model_copy(update=changed)})


def _gate_file(
    captioner: Captioner, candidate: Candidate, weights: LearnedWeights | None, origin: dict[str, Any]
) -> GateFile:
    learned = weights if candidate.gate == "learned" else None
    settings = {
        **asdict(candidate),
        "stop_drafting": candidate.stop_drafting,
        "defer": candidate.deferred,
        "tokenizer": tokenizer_fingerprint(captioner.pair.writer.tokenizer.get_vocab()),
        "fitted_on": origin,
        "learned": learned,
        "waking": _waking(learned) if learned and candidate.deferred else None,
    }
    return GateFile.model_validate(settings)
