"""One tuning from recordings to a recommendation: record, split, fit, sweep, confirm."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import tokenizer_fingerprint
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import SpecdecError, TranscriptError, typed
from specdec_cli.metrics import Reference
from specdec_cli.tune.candidates import Candidate, candidates
from specdec_cli.tune.confirm import Confirming
from specdec_cli.tune.fit import Fitted, examples, fit
from specdec_cli.tune.frontier import Outcome
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.quality import Yardstick
from specdec_cli.tune.record import Recorder
from specdec_cli.tune.recording import Recording
from specdec_cli.tune.replay import replay
from specdec_cli.types import GateName

_Step = TypeVar("_Step")


class Watch(Protocol):
    """Told how far it is."""

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        ...

    def step(self, what: str) -> None:
        """A step is about to be taken."""
        ...

    def advance(self) -> None:
        """It was taken."""
        ...

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What to try.

    Attributes:
        gates: gates that compete.
        ks: block sizes.
        budget: largest escalation rate to recommend, 0 to 1.
        seed: of the split, of the random gate and of the bootstrap.
    """

    gates: tuple[GateName, ...]
    ks: tuple[int, ...]
    budget: float
    seed: int


@dataclass(frozen=True, slots=True)
class Halves:
    """The clips, split so that nobody speaks in both parts.

    Attributes:
        fitting: weights, thresholds and candidates come from these.
        held_out: settings are confirmed on these.
        by: what was kept together, `speaker` or `clip`.
        groups: SHA-256 -> index of its speaker or clip.
    """

    fitting: list[Recording]
    held_out: list[Recording]
    by: str
    groups: dict[str, int] = field(repr=False)


def split(recordings: Sequence[Recording], references: Mapping[str, Reference], seed: int) -> Halves:
    """Halves by speaker if the references name at least four, else by clip."""
    speakers = {r.sha256: ref.speaker for r in recordings if (ref := references.get(r.sha256)) and ref.speaker}
    by_speaker = len(set(speakers.values())) >= 4 and len(speakers) == len(recordings)
    members: dict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        members[speakers[recording.sha256] if by_speaker else recording.sha256].append(recording)
    names = sorted(members)
    random.Random(seed).shuffle(names)
    fitting: list[Recording] = []
    held_out: list[Recording] = []
    for name in names:  # the smaller half gets the next speaker, so that the halves come out alike in size
        (fitting if len(fitting) <= len(held_out) else held_out).extend(members[name])
    groups = {recording.sha256: index for index, name in enumerate(names) for recording in members[name]}
    return Halves(fitting, held_out, "speaker" if by_speaker else "clip", groups)


class Tuner:
    """Carries out a plan on a loaded pair.

    Args:
        captioner: with both models, in hybrid mode.
        plan: what to try.
        journal: keeps recordings and runs.
        watch: told how far it is.
    """

    def __init__(self, captioner: Captioner, plan: Plan, journal: Journal, watch: Watch) -> None:
        self._captioner = captioner
        self._plan = plan
        self._journal = journal
        self._watch = watch
        self._recorder = Recorder(captioner)
        self.fitted: Fitted | None = None

    def record(self, clips: Mapping[str, str]) -> list[Recording]:
        """Records the clips that are not recorded yet; what is wrong with one costs no other.

        Args:
            clips: SHA-256 -> path.

        Returns:
            The recordings of all that could be, in the order of `clips`.
        """
        missing = {sha256: path for sha256, path in clips.items() if sha256 not in self._journal.recordings}
        self._each(list(missing.values()), lambda path: f"recording {path}", lambda path: path, self._record)
        found = []
        for sha256, path in clips.items():
            recording = self._journal.recordings.get(sha256)
            if recording is not None:
                found.append(recording.model_copy(update={"file": path}))
        return found

    def _record(self, path: str) -> None:
        self._journal.add(self._recorder.record(path))

    def fit(self, halves: Halves, yardstick: Yardstick) -> Classifier | None:
        """The learned gate's classifier, if it is among the gates; its figures are in `fitted`.

        With references that name classes it learns which changes are for the better, else which there are.
        """
        if "learned" not in self._plan.gates:
            return None
        k = sorted(self._plan.ks)[len(self._plan.ks) // 2]
        groups = [halves.groups[recording.sha256] for recording in halves.fitting]
        judge = yardstick if yardstick.measure == "labels" else None
        self.fitted = fit(examples(halves.fitting, groups, k, judge), seed=self._plan.seed)
        return Classifier(self.fitted.weights, 0.5, self.tokenizer)

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the pair's tokenizer."""
        return tokenizer_fingerprint(self._captioner.pair.writer.tokenizer.get_vocab())

    def sweep(
        self, recordings: Sequence[Recording], yardstick: Yardstick, classifier: Classifier | None
    ) -> tuple[list[Outcome], float]:
        """Every candidate replayed on every clip; and the share of replays that were exact."""
        found = list(candidates(recordings, self._plan.gates, self._plan.ks, classifier))
        self._watch.begin(len(found))
        outcomes, exact = [], 0
        for candidate in found:
            self._watch.step(f"replaying {candidate.label}")
            outcome, same = swept(candidate, recordings, yardstick, classifier, self._plan.seed)
            outcomes.append(outcome)
            exact += same
            self._watch.advance()
        return outcomes, exact / max(len(found) * len(recordings), 1)

    def confirm(
        self, chosen: Sequence[Candidate], recordings: Sequence[Recording], yardstick: Yardstick, weights: Path | None
    ) -> tuple[list[Outcome], list[Recording]]:
        """Runs the chosen candidates; returns their outcomes and the clips that all of them could caption."""
        confirming = [Confirming(self._captioner, candidate, weights, self._journal) for candidate in chosen]
        steps = [(setting, recording) for setting in confirming for recording in setting.missing(recordings)]
        self._each(
            steps,
            lambda step: f"confirming {step[0].label} {step[1].file}",
            lambda step: step[1].file,
            lambda step: step[0].run(step[1]),
        )
        missing = {recording.sha256 for setting in confirming for recording in setting.missing(recordings)}
        usable = [recording for recording in recordings if recording.sha256 not in missing]
        return [setting.outcome(usable, yardstick) for setting in confirming], usable

    def _each(
        self,
        steps: Sequence[_Step],
        said: Callable[[_Step], str],
        file: Callable[[_Step], str],
        take: Callable[[_Step], None],
    ) -> None:
        """Takes steps with progress; an error is shown and costs its own step only.

        Raises:
            TranscriptError: the file cannot be written, which the next step would not change.
        """
        self._watch.begin(len(steps))
        for step in steps:
            self._watch.step(said(step))
            try:
                take(step)
            except TranscriptError:
                raise
            except Exception as error:
                self._watch.failed(file(step), typed(error))
            self._watch.advance()


def swept(
    candidate: Candidate,
    recordings: Sequence[Recording],
    yardstick: Yardstick,
    classifier: Classifier | None,
    seed: int,
) -> tuple[Outcome, int]:
    """A candidate replayed on every clip, and on how many of them the replay was exact."""
    replays = [replay(r, candidate.make(classifier, r.sha256, seed), candidate.k) for r in recordings]
    outcome = Outcome(
        candidate,
        yardstick.table(recordings, (replayed.ids for replayed in replays)),
        np.array([replayed.rounds for replayed in replays], dtype=float),
        np.array([replayed.escalations for replayed in replays], dtype=float),
        confirmed=False,
    )
    return outcome, sum(replayed.exact for replayed in replays)
