"""One tuning's work on a loaded pair: record, split, fit, time, replay, confirm."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.config.gate_file import GateFile, tokenizer_fingerprint
from specdec_cli.decoding.learned import Classifier
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.errors import ConfigError, TranscriptError, typed
from specdec_cli.evaluate.bootstrap import Values
from specdec_cli.evaluate.costs import cloud_ms
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.measure import CaptionQuality, Parts, parts_of
from specdec_cli.tune.outcomes import SettingOutcome
from specdec_cli.tune.recording import Trace, record
from specdec_cli.tune.replay import Candidate, candidates, deferred
from specdec_cli.tune.stored_recordings import StoredRecordings
from specdec_cli.tune.tuning_plan import TuningPlan

if TYPE_CHECKING:
    from specdec_cli.tune.learned_gate import Fitted

TIMED: Final = 16
"""Clips that the parts of the cloud's time are measured on."""


@dataclass(frozen=True, slots=True)
class Halves:
    """The clips, split so that no speaker is in both parts: `by` says whether speakers or clips were kept together.

    Weights, thresholds and candidates come from `fitting`, and are confirmed on `held_out`. `groups` holds the index of
    the speaker or clip by SHA-256.
    """

    fitting: list[Trace]
    held_out: list[Trace]
    by: str
    groups: dict[str, int] = field(repr=False)


def split(traces: Sequence[Trace], references: Mapping[str, Reference], seed: int) -> Halves:
    """Halves by speaker if the references name at least four, else by clip."""
    speakers = {t.sha256: ref.speaker for t in traces if (ref := references.get(t.sha256)) and ref.speaker}
    by_speaker = len(set(speakers.values())) >= 4 and len(speakers) == len(traces)
    members: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        members[speakers[trace.sha256] if by_speaker else trace.sha256].append(trace)
    names = sorted(members)
    random.Random(seed).shuffle(names)
    fitting: list[Trace] = []
    held_out: list[Trace] = []
    for name in names:  # the smaller half gets the next speaker, so that the halves come out alike in size
        (fitting if len(fitting) <= len(held_out) else held_out).extend(members[name])
    groups = {trace.sha256: index for index, name in enumerate(names) for trace in members[name]}
    return Halves(fitting, held_out, "speaker" if by_speaker else "clip", groups)


class Tuner:
    """Carries out a plan with a captioner that has both models, in hybrid mode."""

    def __init__(self, captioner: Captioner, plan: TuningPlan, journal: StoredRecordings, watch: Watch) -> None:
        self._captioner = captioner
        self._plan = plan
        self._journal = journal
        self._watch = watch
        self.fitted: Fitted | None = None
        self.waking: Fitted | None = None  # for deferred drafts, until the cloud has been called
        self.notes: list[str] = []  # what was left out, in sentences

    def record(self, clips: Mapping[str, str]) -> list[Trace]:
        """Records the clips (SHA-256 -> path) that are not recorded yet; one that fails does not stop the others.

        Returns the traces of all that could be recorded, in the order of `clips`.
        """
        known = self._journal.recordings
        missing = [path for sha256, path in clips.items() if sha256 not in known]
        self._each((f"recording {path}", path, partial(record, self._captioner, path)) for path in missing)
        return [known[sha256].model_copy(update={"file": path}) for sha256, path in clips.items() if sha256 in known]

    def fit(self, halves: Halves, quality: CaptionQuality) -> None:
        """Fits the learned gate, if it is among the gates: `fitted`, and `waking` for deferred drafts.

        Raises:
            ConfigError: the cloud changes too little to fit it, and no other gate is to be tried.
        """
        if "learned" not in self._plan.gates:
            return
        try:
            self.fitted = self._fit(halves, quality, self._plan.k)
            if self._plan.defers:
                self.waking = self._fit(halves, quality, MOST_DEFERRED)
        except ConfigError as error:
            others = tuple(gate for gate in self._plan.gates if gate != "learned")
            if set(others) <= {"random"}:
                raise
            self._plan, self.fitted = replace(self._plan, gates=others), None
            self.notes.append(f"The learned gate was not tried: {error.message}.")

    @property
    def _classifier(self) -> Classifier | None:
        waking = self.waking.weights if self.waking else None
        return Classifier(self.fitted.weights, 0.5, waking=waking) if self.fitted else None

    def _fit(self, halves: Halves, quality: CaptionQuality, k: int) -> Fitted:
        from specdec_cli.tune.learned_gate import Consequences, examples, fit  # needs scikit-learn

        groups = [halves.groups[trace.sha256] for trace in halves.fitting]
        consequences = Consequences(quality.classes)
        found = examples(halves.fitting, groups, k, consequences)
        return fit(found, consequences.decided(halves.fitting), seed=self._plan.seed)

    def gate_file(self, candidate: Candidate, origin: dict[str, Any]) -> GateFile:
        """The gate file of a setting."""
        fitted = self.fitted if candidate.gate == "learned" else None
        waking = self.waking if fitted and candidate.deferred else None
        settings = {
            **asdict(candidate),
            "defer": candidate.deferred,
            "tokenizer": tokenizer_fingerprint(self._captioner.pair.writer.tokenizer.get_vocab()),
            "fitted_on": origin,
            "learned": fitted.weights if fitted else None,
            "waking": waking.weights if waking else None,
        }
        return GateFile.model_validate(settings)

    def time(self, traces: Sequence[Trace]) -> Parts | None:
        """What the parts of the cloud's work take, by runs on the first few of the clips; None: it reports no times."""
        config = _decoding(self._captioner.config, mode="lossless", k=self._plan.k, defer=False)
        lossless = self._captioner.variant(config)
        modes, few = {"cloud-only": self._alone, "lossless": lossless}, traces[:TIMED]
        self._run("timing", modes, few)
        alone, verified = ([run for trace in few if (run := self._held(mode, trace))] for mode in modes.values())
        return parts_of(alone, verified)

    def sweep(
        self, traces: Sequence[Trace], quality: CaptionQuality, parts: Parts | None, rates: Sequence[float]
    ) -> list[SettingOutcome]:
        """Every candidate replayed on every clip."""
        plan, classifier = self._plan, self._classifier
        found = list(candidates(traces, plan.gates, plan.ks, classifier, rates))
        if plan.defers:
            found += deferred(traces, plan.gates, plan.k, classifier)
        outcomes: list[SettingOutcome] = []
        self._watch.begin(len(found))
        for candidate in found:
            self._watch.step(f"replaying {candidate.label}")
            outcomes.append(swept(candidate, traces, quality, classifier, plan.seed, parts))
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
                learned = Candidate("learned", 0.5, self._plan.k, wake=0.5 if self.waking else None)
                weights.write_text(self.gate_file(learned, {}).to_json(), encoding="utf-8")
            captioners = {c: self._captioner.variant(configured(self._captioner.config, c, weights)) for c in chosen}
        every = {"cloud-only": self._alone, **{c.label: captioner for c, captioner in captioners.items()}}
        self._run("confirming", every, traces)
        usable = [trace for trace in traces if all(self._held(captioner, trace) for captioner in every.values())]
        return [self._outcome(c, captioners[c], usable, quality) for c in chosen], usable

    @cached_property
    def _alone(self) -> Captioner:
        """The cloud alone."""
        return self._captioner.variant(_decoding(self._captioner.config, mode="cloud"))

    def _held(self, captioner: Captioner, trace: Trace) -> Transcript | None:
        """The run of a clip, if there is one."""
        return self._journal.run(trace.sha256, captioner.setup.mode, captioner.setup.settings)

    def _run(self, what: str, captioners: Mapping[str, Captioner], traces: Sequence[Trace]) -> None:
        """Captions the clips with those captioners, by name, that have not done so."""
        self._each(
            (f"{what} {name} {trace.file}", trace.file, partial(captioner.caption, trace.file))
            for trace in traces
            for name, captioner in captioners.items()
            if not self._held(captioner, trace)
        )

    def _outcome(
        self, candidate: Candidate, captioner: Captioner, traces: Sequence[Trace], quality: CaptionQuality
    ) -> SettingOutcome:
        """What a candidate did with clips that it has been run on."""
        runs = [run for trace in traces if (run := self._held(captioner, trace))]
        alone = [run for trace in traces if (run := self._held(self._alone, trace))]
        texts = [tuple(id_ for round_ in run.rounds for id_ in round_.committed_ids) for run in runs]
        return SettingOutcome(
            candidate,
            confirmed=True,
            quality=quality.table(traces, texts),
            differing=quality.differing(traces, texts),
            rounds=_figures(len(run.rounds) for run in runs),
            escalations=_figures(sum(round_.escalated for round_ in run.rounds) for run in runs),
            woken=_figures(run.woken for run in runs),
            cloud_ms=_figures(cloud_ms(run) for run in runs),
            alone_ms=_figures(cloud_ms(run) for run in alone),
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


def _figures(values: Iterable[float | None]) -> Values:
    """One figure a clip, NaN where it is not known."""
    return np.array(list(values), dtype=np.float64)


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


def swept(
    candidate: Candidate,
    traces: Sequence[Trace],
    quality: CaptionQuality,
    classifier: Classifier | None,
    seed: int,
    parts: Parts | None,
) -> SettingOutcome:
    """A candidate replayed on every clip, its time in the cloud estimated from `parts`."""
    replays = [candidate.replay(trace, classifier, seed) for trace in traces]
    escalations = _figures(each.escalations for each in replays)
    texts = [each.ids for each in replays]
    unknown = np.full(len(traces), np.nan)
    return SettingOutcome(
        candidate,
        confirmed=False,
        quality=quality.table(traces, texts),
        differing=quality.differing(traces, texts),
        rounds=_figures(each.rounds for each in replays),
        escalations=escalations,
        woken=(escalations > 0).astype(np.float64),
        cloud_ms=parts.hybrid_ms(escalations) if parts else unknown,
        alone_ms=parts.alone_ms([len(trace.cloud.ids) for trace in traces]) if parts else unknown,
        exact=sum(each.exact for each in replays),
    )
