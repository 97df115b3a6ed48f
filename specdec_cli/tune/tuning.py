"""`tune`: from clips to a recommended setting and a gate file: record, fit, replay, confirm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specdec_cli import __version__
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.config.gate_file import GateFile, LearnedWeights, tokenizer_fingerprint
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError, TranscriptError, typed
from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.gap import GapClosed
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.choosing import certified, recommended, worth_certifying, worth_confirming
from specdec_cli.tune.outcomes import Baselines, CaptionQuality, SettingOutcome, Tuning, confirmed, swept
from specdec_cli.tune.recording import StoredRecordings, Trace, record
from specdec_cli.tune.replay import Candidate, candidates
from specdec_cli.tune.tuning_plan import INSTALL, TuningPlan, groups_of, require_clips, split


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
    tuner = Tuner(captioner, plan, journal, watch)
    traces = tuner.record(clips)
    require_clips(len(traces))
    references = {trace.sha256: reference for trace in traces if (reference := find(trace.file)) is not None}
    quality = CaptionQuality(lexicon, references, captioner.config.prompt.language, captioner.decode)
    split_by, groups = groups_of(traces, references)
    fitting, held_out = split(traces, groups, plan.seed)
    tuner.fit(fitting, groups, quality)
    estimated = tuner.sweep(fitting, quality)
    if plan.risk is None:
        chosen = worth_confirming(estimated, plan.budget, plan.cost)
    else:
        chosen = worth_certifying(estimated, plan.risk, plan.cost)
    runs, held_out = tuner.confirm(chosen, held_out, quality)
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
        fitted_on=len(fitting),
        confirmed_on=len(held_out),
        split_by=split_by,
        cost=plan.cost,
        budget=plan.budget,
        risk=guarantee,
        edge_quality=ends.edge,
        cloud_quality=ends.cloud,
        gap=ends.gap,
        confirmed=tuple(outcome.point(alone) for outcome in runs),
        recommended=best.point(alone) if best else None,
        reason=None if best else _reason(ends, plan),
        notes=tuner.notes,
    )
    return tuning, tuner.gate_file(best.candidate, _origin(captioner, tuning)) if best else None


def _reason(ends: GapClosed, plan: TuningPlan) -> str:
    """Why nothing is recommended."""
    budget = f"a budget of {plan.cost}={plan.budget:g}"
    if plan.risk is not None:
        reason = f"No setting within {budget} is certified to keep to a risk of {100 * plan.risk:g}%"
    elif ends.closed is None:
        reason = "The cloud is not measurably better than the edge on these clips, so there is nothing to gain"
    else:
        reason = f"No setting within {budget} is measurably better than the edge alone"
    return f"{reason}. Tune on more recordings{', or with a larger --risk' if plan.risk else ''}, or use --mode edge."


def _origin(captioner: Captioner, tuning: Tuning) -> dict[str, Any]:
    """What a gate file records about where it comes from."""
    return {
        "specdec": __version__,
        "weights": captioner.setup.models.weights,
        "language": captioner.config.prompt.language,
        **tuning.model_dump(mode="json", include={"fitted_on", "confirmed_on", "split_by", "measure"}),
        "budget": {tuning.cost: tuning.budget},
        **({"guarantee": tuning.risk.model_dump()} if tuning.risk else {}),
    }


class Tuner:
    """Carries out a plan with a captioner that has both models, in hybrid mode."""

    def __init__(self, captioner: Captioner, plan: TuningPlan, journal: StoredRecordings, watch: Watch) -> None:
        self._captioner = captioner
        self._plan = plan
        self._journal = journal
        self._watch = watch
        self._alone = captioner.variant(_decoding(captioner.config, mode="cloud"))
        self.fitted: LearnedWeights | None = None
        self.notes: list[str] = []  # what was left out, in sentences
        if "learned" not in plan.gates and find_spec("sklearn") is None:
            self.notes.append(f"The learned gate was not tried: it needs scikit-learn. Install it with: {INSTALL}")

    def record(self, clips: Mapping[str, str]) -> list[Trace]:
        """Records the clips (SHA-256 -> path) that are not recorded yet; one that fails does not stop the others.

        Returns the traces of all that could be recorded, in the order of `clips`.
        """
        known = self._journal.recordings
        missing = [path for sha256, path in clips.items() if sha256 not in known]
        self._each((f"recording {path}", path, partial(record, self._captioner, path)) for path in missing)
        return [known[sha256].model_copy(update={"file": path}) for sha256, path in clips.items() if sha256 in known]

    def fit(self, traces: Sequence[Trace], groups: Mapping[str, str], quality: CaptionQuality) -> None:
        """Fits the learned gate, if it is among the gates.

        Raises:
            ConfigError: the cloud changes too little to fit it, and no other gate is to be tried.
        """
        if "learned" not in self._plan.gates:
            return
        from specdec_cli.tune import learned_gate  # needs scikit-learn

        consequences = learned_gate.Consequences(quality.classes)
        found = learned_gate.examples(traces, [groups[trace.sha256] for trace in traces], consequences)
        try:
            self.fitted = learned_gate.fit(found, consequences.decided(traces), seed=self._plan.seed)
        except ConfigError as error:
            others = tuple(gate for gate in self._plan.gates if gate != "learned")
            if set(others) <= {"random"}:
                raise
            self._plan = replace(self._plan, gates=others)
            self.notes.append(f"The learned gate was not tried: {error.message}.")

    @property
    def _waking(self) -> LearnedWeights | None:
        """The weights for deferred drafts, where of all tokens the likeliest to be changed counts."""
        return self.fitted and self.fitted.model_copy(update={"combination": "largest"})

    def gate_file(self, candidate: Candidate, origin: dict[str, Any]) -> GateFile:
        """The gate file of a setting."""
        fitted = self.fitted if candidate.gate == "learned" else None
        settings = {
            **asdict(candidate),
            "stop_drafting": candidate.stop_drafting,
            "defer": candidate.deferred,
            "tokenizer": tokenizer_fingerprint(self._captioner.pair.writer.tokenizer.get_vocab()),
            "fitted_on": origin,
            "learned": fitted,
            "waking": fitted and self._waking if candidate.deferred else None,
        }
        return GateFile.model_validate(settings)

    def sweep(self, traces: Sequence[Trace], quality: CaptionQuality) -> list[SettingOutcome]:
        """Every candidate replayed on every clip."""
        plan = self._plan
        classifier = Classifier(self.fitted, 0.5, waking=self._waking) if self.fitted else None
        found = list(candidates(traces, plan.gates, plan.ks, classifier, defers=plan.cost != "blocks"))
        outcomes: list[SettingOutcome] = []
        self._watch.begin(len(found))
        for candidate in found:
            self._watch.step(f"replaying {candidate.label}")
            outcomes.append(swept(candidate, traces, quality, classifier, plan.seed))
            self._watch.advance()
        return outcomes

    def confirm(
        self, chosen: Sequence[Candidate], traces: Sequence[Trace], quality: CaptionQuality
    ) -> tuple[list[SettingOutcome], list[Trace]]:
        """Runs the chosen candidates and cloud-only for real, where the journal holds no such run.

        They take turns clip by clip, so that a machine that grows busy slows all of them. Returns the candidates'
        outcomes on the clips that all could caption, and these clips.
        """
        with TemporaryDirectory(prefix="specdec-tune-") as folder:
            weights = Path(folder) / "gate.json"
            if self.fitted is not None:
                learned = Candidate("learned", 0.5, self._plan.ks[0], wake=0.5 if self._plan.cost != "blocks" else None)
                weights.write_text(self.gate_file(learned, {}).to_json(), encoding="utf-8")
            captioners = {c: self._captioner.variant(configured(self._captioner.config, c, weights)) for c in chosen}
        every = {"cloud-only": self._alone, **{c.label: captioner for c, captioner in captioners.items()}}
        self._run("confirming", every, traces)
        usable = [trace for trace in traces if all(self._held(captioner, [trace]) for captioner in every.values())]
        alone = self._held(self._alone, usable)
        runs = {candidate: self._held(captioner, usable) for candidate, captioner in captioners.items()}
        return [confirmed(candidate, usable, quality, own, alone) for candidate, own in runs.items()], usable

    def _held(self, captioner: Captioner, traces: Sequence[Trace]) -> list[Transcript]:
        """The runs of these clips, as far as there are any."""
        mode, settings = captioner.setup.mode, captioner.setup.settings
        return [run for trace in traces if (run := self._journal.run(trace.sha256, mode, settings))]

    def _run(self, what: str, captioners: Mapping[str, Captioner], traces: Sequence[Trace]) -> None:
        """Captions the clips with those captioners, by name, that have not done so."""
        self._each(
            (f"{what} {name} {trace.file}", trace.file, partial(captioner.caption, trace.file))
            for trace in traces
            for name, captioner in captioners.items()
            if not self._held(captioner, [trace])
        )

    def _each(self, steps: Iterable[tuple[str, str, Callable[[], Trace | Transcript]]]) -> None:
        """Takes steps (what is shown, the file, what makes a line of the journal); an error costs its own step only.

        Raises:
            TranscriptError: the journal cannot be written, which the next step would not change.
        """
        listed = list(steps)
        self._watch.begin(len(listed))
        for what, file, take in listed:
            self._watch.step(what)
            try:
                self._journal.add(take())
            except TranscriptError:
                raise
            except Exception as error:
                self._watch.failed(file, typed(error))
            self._watch.advance()


def _decoding(config: Config, **changed: object) -> Config:
    return config.model_copy(update={"decoding": config.decoding.model_copy(update=changed)})


def configured(config: Config, candidate: Candidate, weights: Path) -> Config:
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
