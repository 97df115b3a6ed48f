"""`tune`: from clips to a recommended gate: record, replay, confirm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.config.yaml_file import write_yaml
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.text_scores import in_another_language
from specdec_cli.format import points, with_ends
from specdec_cli.journal import Watch
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, counted
from specdec_cli.tune.choosing import best_of, worth_running
from specdec_cli.tune.outcomes import Baselines, CaptionQuality, SettingOutcome, TunedPoint, Tuning, confirmed, swept
from specdec_cli.tune.recording import StoredRecordings, Trace
from specdec_cli.tune.replay import Candidate, candidates
from specdec_cli.tune.tuning_plan import TuningPlan, groups_of, require_clips, split
from specdec_cli.types import Interval

_LEAST_GAIN: Final = 0.01  # share of the quality; where an interval ends below, no gain is worth looking for


def tune(
    captioner: Captioner,
    plan: TuningPlan,
    clips: Mapping[str, str],
    find: Callable[[str], Reference | None] | None,
    lexicon: Lexicon,
    journal: StoredRecordings,
    watch: Watch,
) -> Tuning:
    """Records clips, sweeps gates over the traces of one half, and confirms the best of them on the other.

    Args:
        captioner: with both models, in hybrid mode, greedy; with a configuration that `require_tunable` accepts.
        clips: SHA-256 -> path.
        find: the reference of a path, or None; None: there are no references, and quality is agreement with the cloud.

    Raises:
        ConfigError: too few clips can be recorded, or the references have no row about them.
        TranscriptError: the journal's file cannot be written.
    """
    references = {sha256: found for sha256, path in clips.items() if find and (found := find(path)) is not None}
    language = captioner.config.prompt.language
    quality = CaptionQuality(lexicon, references, language, captioner.decode)
    if find is not None:
        quality.require_references()
    traces = journal.record(captioner, clips, watch)
    require_clips(len(traces))
    answers = [references[trace.sha256] for trace in traces if trace.sha256 in references]
    split_by, groups = groups_of(traces, references)
    choosing, held_out = split(traces, groups, plan.seed)
    chosen = worth_running(_sweep(plan, choosing, quality, watch), plan)
    runs, held_out = _confirm(_variants(captioner, chosen), held_out, quality, journal, watch)
    alone = Baselines.of(held_out, quality, plan.seed)
    ends, best = alone.gap(alone.cloud), best_of(runs, alone, plan)
    rows = tuple(outcome.point(alone) for outcome in runs)
    gains = [point.gain for point in rows if point.gate != "random" and (point.spent[plan.cost] or 0) <= plan.budget]
    largest = max(gains, key=lambda gain: gain.value, default=None)
    needed = clips_needed(largest, len(traces))
    return Tuning(
        measure=quality.measure,
        clips=len(traces),
        references_found=len(answers) or None,
        chosen_on=len(choosing),
        confirmed_on=len(held_out),
        split_by=split_by,
        cost=plan.cost,
        budget=plan.budget,
        edge_quality=ends.edge,
        cloud_quality=ends.cloud,
        gap=ends.gap,
        confirmed=rows,
        recommended=best.point(alone) if best else None,
        reason=None if best else _reason(plan, needed, rows, largest),
        clips_needed=None if best or _dearer(rows, plan) else needed,
        attributes=quality.judged,
        notes=[*quality.notes(), *counted(answers), *in_another_language(answers, language)],
    )


def config_file(config: Config, found: Tuning, weights: Mapping[str, str | None]) -> str:
    """A config file (YAML) of `config` with the recommended gate, and a comment on how it was found.

    `weights`: role -> fingerprint of the model that it was found with.
    """
    best = found.recommended
    assert best is not None  # the caller has asked
    tuned = _configured(config, best)
    values: dict[str, Any] = tuned.model_dump(mode="json", exclude_defaults=True)
    for section, names in (("decoding", ("k",)), ("gate", ("name", "threshold", "wake", "stop_drafting"))):
        values[section] = {**values.get(section, {}), **getattr(tuned, section).model_dump(include=set(names))}
    of = ", ".join(f"{role} {fingerprint or 'unknown'}" for role, fingerprint in weights.items())
    about = (
        f"Written by specdec {__version__} tune: {best.label}.",
        f"Chosen on {found.chosen_on} clips, confirmed on {found.confirmed_on} others (split by {found.split_by}) by "
        f"{found.of}, within a budget of {found.cost}={found.budget:g}.",
        f"Weights: {of}.",
    )
    return "".join(f"# {line}\n" for line in about) + "\n" + write_yaml(values)


def clips_needed(difference: Interval | None, clips: int) -> int | None:
    """Estimated number of recordings that show a difference, in two digits; None: the difference is 0 or below.

    The interval of a mean narrows with the root of the number of clips, which leaves it just above 0 here.
    """
    if difference is None or difference.low is None or difference.value <= 0:
        return None
    rough = clips * ((difference.value - difference.low) / difference.value) ** 2
    ten = int(10 ** max(len(str(round(rough))) - 2, 0))
    return max(math.ceil(rough / ten) * ten, clips + 1)


def _dearer(rows: Sequence[TunedPoint], plan: TuningPlan) -> list[tuple[float, str]]:
    """The settings whose gain is certain but whose cost is above the budget: their shares of the cost, and names."""
    certain = (point for point in rows if point.gate != "random" and (point.gain.low or 0.0) > 0)
    shares = ((point.spent[plan.cost], point.label) for point in certain)
    return [(share, label) for share, label in shares if share is not None and share > plan.budget]


def _reason(plan: TuningPlan, needed: int | None, rows: Sequence[TunedPoint], largest: Interval | None) -> str:
    """Why nothing is recommended, and which setting above the budget or how many recordings would be.

    `largest`: the largest gain within the budget; None: no setting lies within it.
    """
    reason = f"No setting within a budget of {plan.cost}={plan.budget:g} is measurably better than the edge alone"
    if dearer := _dearer(rows, plan):
        share, label = min(dearer)
        return f"{reason}. {label} is, at {plan.cost}={share:.2f}: allow more than that, or set this gate yourself."
    if largest is None:
        return f"{reason}: none keeps within it."
    if needed is None and (largest.high or 0.0) > _LEAST_GAIN:
        gain = with_ends(largest, points, " points")
        return f"{reason}: the largest gain is {gain}. That is too uncertain to decide by: tune on more recordings."
    if needed is None:
        return f"{reason}, and more recordings like these would hardly change it: use --mode edge."
    return f"{reason}. If the largest gain is what it seems, some {needed:,} recordings would show it."


def _sweep(plan: TuningPlan, traces: Sequence[Trace], quality: CaptionQuality, watch: Watch) -> list[SettingOutcome]:
    """Every candidate replayed on every clip."""
    found = list(candidates(traces, plan.gates, plan.ks, defers=plan.cost != "blocks"))
    outcomes: list[SettingOutcome] = []
    watch.begin(len(found))
    for candidate in found:
        watch.step(f"replaying {candidate.label}")
        outcomes.append(swept(candidate, traces, quality, plan.seed))
        watch.advance()
    return outcomes


def _variants(captioner: Captioner, chosen: Sequence[Candidate]) -> dict[Candidate | None, Captioner]:
    """The captioners of cloud-only (None) and of each chosen candidate."""
    cloud = captioner.variant(_decoding(captioner.config, mode="cloud"))
    return {None: cloud} | {each: captioner.variant(_configured(captioner.config, each)) for each in chosen}


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


def _configured(config: Config, candidate: Candidate) -> Config:
    """`config` of a hybrid run with the candidate's gate and k."""
    gate = {
        "name": candidate.gate,
        "threshold": candidate.threshold,
        "wake": candidate.wake,
        "stop_drafting": candidate.stop_drafting,
    }
    config = config.model_copy(update={"gate": config.gate.model_copy(update=gate)})
    return _decoding(config, k="whole" if candidate.deferred else candidate.k)


def _decoding(config: Config, **changed: object) -> Config:
    return config.model_copy(update={"decoding": config.decoding.model_copy(update=changed)})
