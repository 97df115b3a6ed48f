"""The parts of a batch: tasks, backends that caption them, outcomes, and counts."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from specdec_cli.captioning.output_file import Task
from specdec_cli.config import Config
from specdec_cli.errors import AudioContentError, SpecdecError
from specdec_cli.inputs.find import all_unreadable
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.labels import Lexicon
from specdec_cli.transcript.recorder import whole_of
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SharedFields
from specdec_cli.types import Flag

LISTED: Final = 20
"""Failures that are kept for the list at the end; the output has them all."""

WARNED: Final = 3
"""Files that one line names for warnings of one kind."""


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """What the actors of a cluster caption with: see `Captioner.labelled` (lexicon) and `BatchBackend` (batch_size)."""

    config: Config
    lexicon: Lexicon
    batch_size: int | None
    recordings: tuple[str, ...] = ()  # paths of all of them


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a task, or of a piece of its recording: a caption, a failure, or nothing to do."""

    item: InputFile
    line: Transcript | None = None  # None if it was done before
    pieces: int = 1  # of the recording that end with it
    of: int = 1  # pieces of it that this run captions
    of_s: float = 0.0  # their length, seconds
    captioned: bool = False  # whether an earlier run captioned it, or another piece of it
    error: SpecdecError | None = None  # why there is no caption


Stopped = Callable[[], bool]
"""Whether nothing more is to be begun. It is called often, and may raise an error that ends the run."""


class Backend(Protocol):
    """Captions tasks, on this machine or on others; `shared` is what their transcripts have in common."""

    @property
    def shared(self) -> SharedFields: ...

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """The outcome of each piece, in order of finishing, until there are no more tasks.

        Once `stopped`, only what has begun is finished; closing the generator ends that too. Tasks are taken one at a
        time, as they are needed, possibly in another thread.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Begun:
    """The state of a recording of which pieces are left."""

    left: int
    of_s: float  # length of all its pieces that this run captions
    captioned: bool  # whether one has a caption
    done_s: float = 0.0  # length of those that are done


@dataclass(slots=True)
class Progress:
    """Counts of a run so far; of recordings, unless a comment says of what."""

    total: int = 0
    done: int = 0  # with or without a caption
    captioned: int = 0  # with a caption of a piece
    pieces: int = 0  # captions of this run
    skipped: int = 0  # done by an earlier run
    without: int = 0  # skipped ones without a caption: there is nothing to describe
    failed: int = 0  # recordings and pieces without a caption
    may_pass: int = 0  # failed ones that another try may caption
    degraded: int = 0  # captions that the edge had to finish without the cloud
    answered: bool = False  # whether the cloud verified a block or wrote a caption
    flags: Counter[Flag] = field(default_factory=Counter)  # this and all below: of the captions of this run
    silent: dict[str, list[str]] = field(default_factory=dict)  # file -> times of its first pieces without speech
    warnings: dict[str, tuple[int, str, list[str]]] = field(default_factory=dict)  # kind -> number, first, its files
    audio_s: float = 0.0
    tokens: int = 0
    rounds: int = 0  # where a cloud takes part
    escalations: int = 0
    edge_ms: float = 0.0  # drafting at a remote edge
    cloud_ms: float = 0.0  # and verifying; 0 where the edge is here
    failures: list[tuple[str, str]] = field(default_factory=list)  # file and message of the first that failed
    started: float = field(default_factory=time.monotonic)
    _begun: dict[Key, _Begun] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        line, key = outcome.line, outcome.item.key
        if line is None:
            self.skipped += 1
            self.without += not outcome.captioned
            self.done += 1
            return
        begun = self._begun.pop(key, _Begun(outcome.of, outcome.of_s, outcome.captioned))
        captioned, done_s = begun.captioned or line.good, begun.done_s + (line.duration_s or 0.0)
        if begun.left > outcome.pieces:
            self._begun[key] = _Begun(begun.left - outcome.pieces, begun.of_s, captioned, done_s)
        else:
            self.done += 1
            self.captioned += captioned
        for warning in line.warnings:
            self.warn(line.file, warning)
        if line.error is not None:
            self.fail(line.file, line.error.type, line.error.message)
            return
        self.pieces += 1
        self.degraded += line.degraded is not None
        self.answered = self.answered or any(each.verify_ms is not None for each in line.rounds)
        self.flags.update(line.flags)
        if "no_speech" in line.flags and sum(map(len, self.silent.values())) + len(self.silent) < LISTED:
            times = [] if line.start_s is None else [f"{line.start_s:.2f} to {line.end_s:.2f} s"]
            self.silent.setdefault(line.file, []).extend(times)
        if line.totals is None:
            return
        self.audio_s += line.duration_s or 0.0
        self.tokens += line.totals.tokens
        if line.models.edge and line.models.edge.serves:
            self.edge_ms += sum(each.draft_ms for each in line.rounds)
            self.cloud_ms += sum((each.verify_ms or 0.0) + (each.network_ms or 0.0) for each in line.rounds)
        if line.totals.escalation_rate is not None:
            self.rounds += line.totals.rounds
            self.escalations += line.totals.escalations

    def warn(self, file: str, warning: str) -> None:
        """Counts a warning; warnings that differ in numbers and quoted names alone are of one kind."""
        kind = re.sub(r"\d[\d.,:]*|'[^']*'", "#", warning.replace(file, ""))
        number, first, files = self.warnings.get(kind, (0, warning, []))
        self.warnings[kind] = (number + 1, first, [*files, file][:WARNED])

    def fail(self, file: str, kind: str, message: str) -> None:
        """Counts a recording, or a piece of one, without a caption; `kind`: class of the error."""
        self.failed += 1
        self.may_pass += kind != AudioContentError.__name__
        if len(self.failures) < LISTED:
            self.failures.append((file, message))

    @property
    def elapsed_s(self) -> float:
        """Since the start, seconds."""
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def escalation_rate(self) -> float | None:
        """Escalated / all rounds of all captions; None if no cloud takes part."""
        return self.escalations / self.rounds if self.rounds else None

    @property
    def under_way(self) -> tuple[float, float]:
        """Of the recordings that have begun: seconds of audio that are done, and seconds in all."""
        begun = self._begun.values()
        return sum(each.done_s for each in begun), sum(each.of_s for each in begun)

    @property
    def reached(self) -> float:
        """Recordings that are done, with the done share of those that have begun."""
        return self.done + sum(min(each.done_s / each.of_s, 1.0) for each in self._begun.values() if each.of_s)

    @property
    def left_s(self) -> float | None:
        """Time that the rest will take at the pace so far, seconds; None while it is unknown, and at the end."""
        worked = self.reached - self.skipped
        return (self.total - self.reached) / worked * self.elapsed_s if worked > 0 and self.done < self.total else None


class Wholes:
    """Recordings whose pieces are under way; see `Transcript.whole`."""

    def __init__(self) -> None:
        self._lines: dict[Key, list[Transcript]] = {}
        self._ended: Counter[Key] = Counter()  # pieces

    def complete(self, outcome: Outcome, earlier: Callable[[], Iterable[Transcript]]) -> Outcome:
        """The outcome, with the recording as a whole in its line if that completes the pieces.

        `earlier` reads the pieces that an earlier run captioned.
        """
        line, key = outcome.line, outcome.item.key
        if line is None or line.pieces is None:
            return outcome
        self._ended[key] += outcome.pieces
        self._lines.setdefault(key, []).append(line.model_copy(update={"rounds": ()}))
        if self._ended[key] < outcome.of:
            return outcome
        lines = [*(earlier() if outcome.of < line.pieces else ()), *self._lines.pop(key)]
        del self._ended[key]
        return replace(outcome, line=line.model_copy(update={"whole": whole_of(lines)}))


def outcomes_if_none_needs_models(tasks: Sequence[Task], shared: SharedFields) -> list[Outcome] | None:
    """The outcomes of tasks that are all done or cannot be opened; None if one needs the models. Opens the files."""
    refused = all_unreadable(task.item for task in tasks if not task.settled)
    known = [task for task in tasks if task.item.path not in refused]
    if not (all(task.settled for task in known) and all(task.done for task in known)):  # the second reads the files
        return None
    outcomes = list[Outcome]()
    for task in tasks:
        error = refused.get(task.item.path)
        line = None if error is None else shared.error_line(task.item, error)
        outcomes.append(Outcome(task.item, line, captioned=line is None and task.captioned, error=error))
    return outcomes
