"""What a batch is made of: tasks, what became of each, counts of it all, and where tasks are captioned."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.errors import AudioContentError, SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.types import Flag

if TYPE_CHECKING:
    from specdec_cli.batch.output_file import Entry
    from specdec_cli.transcript.records import Transcript

LISTED: Final = 20
"""Failures that are kept for the list at the end; the output has them all."""


@dataclass(frozen=True, slots=True)
class Task:
    """A recording that may be done already.

    Attributes:
        item: the recording.
        entry: what the output holds of it; None: nothing.
    """

    item: InputFile
    entry: Entry | None = None

    @property
    def done(self) -> bool:
        """Whether the output has all captions that the recording as it is can have; reads the file."""
        return self.entry is not None and self.entry.settled and self.entry.of_content(self.item)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording, or of a piece of it.

    Attributes:
        item: the recording.
        lines: transcripts; none if it was done before.
        last: whether this ends the recording, or more of its pieces follow.
        spoilt: whether an earlier piece has no caption.
        captioned: how many pieces had a caption before.
        pieces: of the recording.
    """

    item: InputFile
    lines: tuple[Transcript, ...] = ()
    last: bool = True
    spoilt: bool = False
    captioned: int = 0
    pieces: int = 1

    @classmethod
    def before(cls, task: Task) -> Outcome:
        """Of a recording that was done before."""
        marks = task.entry.marks if task.entry else ()
        return cls(task.item, captioned=sum(mark.good for mark in marks), pieces=len(marks))

    @property
    def skipped(self) -> bool:
        """Whether the output had it already."""
        return not self.lines

    @property
    def failed(self) -> bool:
        """Whether it, or a piece of it up to here, has no caption."""
        return self.spoilt or any(line.error is not None for line in self.lines)


Deliver = Callable[[Outcome], None]
"""Takes what became of a recording, or of a piece of it."""

Stopped = Callable[[], bool]
"""Whether nothing more is to be begun."""


class Backend(Protocol):
    """Captions tasks, on this machine or on others."""

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """Captions tasks until there are no more, or until `stopped`; what has begun is finished either way.

        Args:
            tasks: taken one at a time, as they are needed; possibly in another thread.
            deliver: called for each piece, in the caller's thread, in order of finishing. What it raises ends the run.
            stopped: called again and again.
        """
        ...


@dataclass(slots=True)
class Progress:
    """Counts of a run so far.

    Attributes:
        total: recordings there are; None while they are being counted.
        captioned, failed, skipped: recordings captioned, without a caption, and done by an earlier run.
        empty: recordings in which an earlier run found nothing to describe.
        in_part: recordings of which some pieces were captioned; `pieces` of them, how many of how many.
        may_pass: failures that another try may not have.
        degraded: captions that the edge had to finish without the cloud.
        flags: how many captions have each.
        audio_s: length of what was captioned, seconds.
        tokens, rounds, escalations: sums over the captions of this run; the last two where a cloud takes part.
        edge_ms, cloud_ms: of these captions, drafting at an edge elsewhere and verifying; 0 where it is none.
        failures: file and message of the first recordings or segments without a caption.
        clock: seconds from any start.
    """

    total: int | None = None
    captioned: int = 0
    failed: int = 0
    skipped: int = 0
    empty: int = 0
    in_part: int = 0
    pieces: tuple[int, int] = (0, 0)
    may_pass: int = 0
    degraded: int = 0
    flags: Counter[Flag] = field(default_factory=Counter)
    audio_s: float = 0.0
    tokens: int = 0
    rounds: int = 0
    escalations: int = 0
    edge_ms: float = 0.0
    cloud_ms: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def add(self, outcome: Outcome) -> None:
        """Counts what became of a recording, or of a piece of it."""
        if outcome.skipped:
            self.skipped += outcome.captioned > 0
            self.empty += not outcome.captioned
            return
        if outcome.last:
            found = outcome.captioned + sum(line.error is None for line in outcome.lines)
            self.captioned += not outcome.failed
            self.failed += outcome.failed and not found
            if outcome.failed and found:
                self.in_part += 1
                self.pieces = self.pieces[0] + found, self.pieces[1] + outcome.pieces
        for line in outcome.lines:
            if line.error is not None:
                self.may_pass += line.error.type != AudioContentError.__name__
                self._list(line.file, line.error.message)
            self.degraded += line.degraded is not None
            self.flags.update(line.flags if line.error is None else ())
            if line.totals is not None:
                self.audio_s += line.duration_s or 0.0
                self.tokens += line.totals.tokens
                if line.models and line.models.edge and line.models.edge.serves:
                    self.edge_ms += sum(round_.draft_ms for round_ in line.rounds)
                    self.cloud_ms += sum((each.verify_ms or 0.0) + (each.network_ms or 0.0) for each in line.rounds)
                if line.totals.escalation_rate is not None:
                    self.rounds += line.totals.rounds
                    self.escalations += line.totals.escalations

    def add_failure(self, file: str, error: SpecdecError) -> None:
        """Counts a recording that failed before and was not tried again."""
        self.failed += 1
        self.may_pass += type(error) is not AudioContentError
        self._list(file, error.message)

    def _list(self, file: str, message: str) -> None:
        if len(self.failures) < LISTED:
            self.failures.append((file, message))

    @property
    def done(self) -> int:
        """Recordings that this run is through with."""
        return self.captioned + self.in_part + self.failed + self.skipped + self.empty

    @property
    def elapsed_s(self) -> float:
        """Since the first recording was begun, seconds."""
        return self.clock() - self.started

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all captions / time since the start."""
        return self.tokens / self.elapsed_s if self.tokens and self.elapsed_s > 0 else None

    @property
    def clips_per_s(self) -> float | None:
        """Recordings captioned / time since the start."""
        return self.captioned / self.elapsed_s if self.captioned and self.elapsed_s > 0 else None

    @property
    def escalation_rate(self) -> float | None:
        """Escalated / all rounds of all captions; None where no cloud takes part."""
        return self.escalations / self.rounds if self.rounds else None

    @property
    def left_s(self) -> float | None:
        """Time that the rest will take at the pace so far, seconds; None while it is unknown."""
        worked = self.captioned + self.in_part + self.failed
        if self.total is None or not worked:
            return None
        return max(self.total - self.done, 0) / worked * self.elapsed_s
