"""What a batch is made of: tasks and where they are captioned, what became of each, and counts of it all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.batch.output_file import Output, Task
from specdec_cli.errors import AudioContentError
from specdec_cli.inputs.find import all_unreadable
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.types import Flag

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.inputs.manifest import Inputs
    from specdec_cli.labels.calibration import Labelling
    from specdec_cli.run import Setup
    from specdec_cli.transcript.records import Transcript

LISTED: Final = 20
"""Failures that are kept for the list at the end; the output has them all."""


@dataclass(frozen=True, slots=True)
class Work:
    """How a batch captions; `labelling` as of `Captioner.labelled`, the numbers as of `LocalBackend`."""

    config: Config
    labelling: Labelling | None  # None: transcripts have no labels
    measures: bool  # whether they have measured figures
    batch_size: int | None
    in_flight: int | None
    workers: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording, or of a piece of it."""

    item: InputFile
    line: Transcript | None = None  # None if it was done before
    pieces: int = 1  # of the recording that this is the end of
    of: int = 1  # pieces of it that this run captions
    captioned: bool = False  # whether an earlier run captioned another piece


Stopped = Callable[[], bool]
"""Whether nothing more is to be begun; it may raise what ends the run, and is asked every moment."""


class Backend(Protocol):
    """Captions tasks, on this machine or on others; `setup` is what their transcripts have in common."""

    @property
    def setup(self) -> Setup: ...

    def run(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """What became of each piece, in order of finishing, until there are no more tasks.

        Once `stopped`, only what has begun is finished; closing the generator ends that too. Tasks are taken one at a
        time, as they are needed, possibly in another thread.
        """
        ...


@dataclass(slots=True)
class Progress:
    """Counts of a run so far: of recordings, where nothing else is said."""

    total: int = 0
    done: int = 0  # that this run is through with
    captioned: int = 0  # of which a piece has a caption
    skipped: int = 0  # that an earlier run is through with
    failed: int = 0  # recordings and pieces without a caption
    may_pass: int = 0  # of these, those that another try may caption
    degraded: int = 0  # captions that the edge had to finish without the cloud
    flags: Counter[Flag] = field(default_factory=Counter)  # of the captions of this run, as all that follows
    audio_s: float = 0.0
    tokens: int = 0
    rounds: int = 0  # where a cloud takes part
    escalations: int = 0
    edge_ms: float = 0.0  # drafting at an edge elsewhere
    cloud_ms: float = 0.0  # and verifying; 0 where the edge is here
    failures: list[tuple[str, str]] = field(default_factory=list)  # file and message of the first that failed
    started: float = field(default_factory=time.monotonic)
    _begun: dict[Key, tuple[int, bool]] = field(default_factory=dict)  # pieces left, and whether one has a caption

    def add(self, outcome: Outcome) -> None:
        """Counts what became of a recording, or of a piece of it."""
        line, key = outcome.line, outcome.item.key
        if line is None:
            self.skipped += 1
            self.done += 1
            return
        left, captioned = self._begun.pop(key, (outcome.of, outcome.captioned))
        if left > outcome.pieces:
            self._begun[key] = (left - outcome.pieces, captioned or line.good)
        else:
            self.done += 1
            self.captioned += captioned or line.good
        if line.error is not None:
            self.fail(line.file, line.error.type, line.error.message)
            return
        self.degraded += line.degraded is not None
        self.flags.update(line.flags)
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
        """Escalated / all rounds of all captions; None where no cloud takes part."""
        return self.escalations / self.rounds if self.rounds else None

    @property
    def left_s(self) -> float | None:
        """Time that the rest will take at the pace so far, seconds; None while it is unknown."""
        worked = self.done - self.skipped
        return (self.total - self.done) / worked * self.elapsed_s if worked > 0 else None


def find_tasks(inputs: Inputs | None, output: Output, *, limit: int | None, only_failed: bool) -> list[Task]:
    """Each recording once: to be captioned, at most `limit`, or to be compared with what was captioned.

    Without `inputs` they are those that failed before; `only_failed` leaves out what did not.
    """
    tasks, left = list[Task](), limit
    for task in map(output.find, output.failed() if inputs is None else inputs):
        if only_failed and not task.failed:
            continue
        if left is not None and not task.settled:
            if left == 0:
                break
            left -= 1
        tasks.append(task)
    return tasks


def drop_hopeless(tasks: list[Task], counts: Progress) -> list[Task]:
    """The tasks for which models have to be loaded; none if nothing can be captioned. What is left out is counted.

    Raises:
        SpecdecError: none of the recordings can be opened, and none was tried before.
    """
    counts.total, new = len(tasks), [task for task in tasks if not task.settled]
    refused = all_unreadable(task.item for task in new)
    if refused and not any(task.marks for task in tasks):
        first, *more = refused.values()
        told = f" {len(more)} more cannot be captioned either." if more else ""
        raise type(first)(first.message + told, hint=first.hint)
    if refused and all(task.marks for task in new):  # and nothing has changed since they failed
        for task in new:
            error = refused[task.item.path]
            counts.fail(task.item.path, type(error).__name__, error.message)
        counts.done, tasks, new = len(new), [task for task in tasks if task.settled], []
    if new or not all(task.done for task in tasks):
        return tasks
    counts.skipped, counts.done = len(tasks), counts.total
    return []


def caption_all(
    tasks: Iterable[Task],
    backend: Backend,
    output: Output,
    counts: Progress,
    report: Callable[[Progress], None],
    interrupted: Stopped,
    *,
    fail_fast: bool,
) -> None:
    """Captions tasks: every outcome to the output and to the counts, until all are done.

    Args:
        report: called with the counts at the start and after every recording.
        interrupted: whether the user has interrupted it; it may raise what ends the run at once.
        fail_fast: whether the first failure ends the run.

    Raises:
        TranscriptError: the output cannot be written.
    """
    before = counts.failed

    def stopped() -> bool:
        return interrupted() or (fail_fast and counts.failed > before)

    report(counts)
    with closing(backend.run(takewhile(lambda _: not stopped(), tasks), stopped)) as outcomes:
        for outcome in outcomes:
            if outcome.line is not None:
                output.add(outcome.item.key, outcome.line)
            counts.add(outcome)
            report(counts)
