"""One tuning's work on a loaded pair: record, split, fit, replay, confirm."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.config.gate_file import GateFile, tokenizer_fingerprint
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError, TranscriptError, typed
from specdec_cli.labels.references import Reference
from specdec_cli.store import Watch
from specdec_cli.transcript.records import Transcript
from specdec_cli.tune.outcomes import CaptionQuality, SettingOutcome, confirmed, swept
from specdec_cli.tune.recording import StoredRecordings, Trace, record
from specdec_cli.tune.replay import Candidate, candidates, deferred
from specdec_cli.tune.tuning_plan import INSTALL, TuningPlan

if TYPE_CHECKING:
    from specdec_cli.tune.learned_gate import Fitted


@dataclass(frozen=True, slots=True)
class Halves:
    """The clips, split so that no group, which is a speaker or a clip, is in both parts.

    Weights, thresholds and candidates come from `fitting`, and are confirmed on `held_out`.
    """

    fitting: list[Trace]
    held_out: list[Trace]
    by: str  # speaker or clip
    groups: Mapping[str, str]  # SHA-256 -> group


def split(traces: Sequence[Trace], references: Mapping[str, Reference], seed: int) -> Halves:
    """Halves by speaker if the references name at least four, and one for every clip; else by clip."""
    found = [(trace, references.get(trace.sha256)) for trace in traces]
    groups = {trace.sha256: reference.speaker for trace, reference in found if reference and reference.speaker}
    by_speaker = len(groups) == len(traces) and len(set(groups.values())) >= 4
    groups = groups if by_speaker else {trace.sha256: trace.sha256 for trace in traces}
    members: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        members[groups[trace.sha256]].append(trace)
    names = sorted(members)
    random.Random(seed).shuffle(names)
    halves: tuple[list[Trace], list[Trace]] = [], []
    for name in names:
        min(halves, key=len).extend(members[name])  # so that the halves come out alike in size
    return Halves(*halves, "speaker" if by_speaker else "clip", groups)


class Tuner:
    """Carries out a plan with a captioner that has both models, in hybrid mode.

    Attributes:
        notes: what was left out, in sentences.
    """

    def __init__(self, captioner: Captioner, plan: TuningPlan, journal: StoredRecordings, watch: Watch) -> None:
        self._captioner = captioner
        self._plan = plan
        self._journal = journal
        self._watch = watch
        self._alone = captioner.variant(_decoding(captioner.config, mode="cloud"))
        self.fitted: Fitted | None = None
        self.notes: list[str] = []
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

    def fit(self, halves: Halves, quality: CaptionQuality) -> None:
        """Fits the learned gate, if it is among the gates.

        Raises:
            ConfigError: the cloud changes too little to fit it, and no other gate is to be tried.
        """
        if "learned" not in self._plan.gates:
            return
        from specdec_cli.tune import learned_gate  # needs scikit-learn

        consequences = learned_gate.Consequences(quality.classes)
        groups = [halves.groups[trace.sha256] for trace in halves.fitting]
        found = learned_gate.examples(halves.fitting, groups, consequences)
        try:
            self.fitted = learned_gate.fit(found, consequences.decided(halves.fitting), seed=self._plan.seed)
        except ConfigError as error:
            others = tuple(gate for gate in self._plan.gates if gate != "learned")
            if set(others) <= {"random"}:
                raise
            self._plan = replace(self._plan, gates=others)
            self.notes.append(f"The learned gate was not tried: {error.message}.")

    def gate_file(self, candidate: Candidate, origin: dict[str, Any]) -> GateFile:
        """The gate file of a setting."""
        fitted = self.fitted if candidate.gate == "learned" else None
        settings = {
            **asdict(candidate),
            "stop_drafting": candidate.stop_drafting,
            "defer": candidate.deferred,
            "tokenizer": tokenizer_fingerprint(self._captioner.pair.writer.tokenizer.get_vocab()),
            "fitted_on": origin,
            "learned": fitted and fitted.weights,
            "waking": fitted and fitted.waking if candidate.deferred else None,
        }
        return GateFile.model_validate(settings)

    def sweep(self, traces: Sequence[Trace], quality: CaptionQuality) -> list[SettingOutcome]:
        """Every candidate replayed on every clip."""
        plan = self._plan
        classifier = Classifier(self.fitted.weights, 0.5, waking=self.fitted.waking) if self.fitted else None
        found = list(candidates(traces, plan.gates, plan.ks, classifier))
        if plan.defers:
            found += deferred(traces, plan.gates, plan.k, classifier)
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
                learned = Candidate("learned", 0.5, self._plan.k, wake=0.5 if self._plan.defers else None)
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
