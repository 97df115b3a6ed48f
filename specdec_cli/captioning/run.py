"""A run: it captions what an output lacks, writes each transcript as it is made, and counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from itertools import takewhile
from typing import Protocol

from specdec_cli import interrupts
from specdec_cli.captioning.job import Job
from specdec_cli.captioning.output_file import Output, Task
from specdec_cli.captioning.tasks import Backend, Outcome, Progress, Wholes, without_models
from specdec_cli.transcript.shared import loaded_changes


class BackendSource(Protocol):
    """What captions; its models are loaded when there is something to caption."""

    def opened(self) -> AbstractContextManager[Backend]:
        """The backend, which ends with the block."""
        ...


class Sink:
    """What becomes of outcomes; this one counts them.

    Attributes:
        counts: of the run so far.
        refused: exit code if no recording could be opened, in which case nothing is written; else 0.
        moved: recordings done before that have another name by now.
        renamed: recordings done before of which the manifest has another speaker or text.
    """

    def __init__(self) -> None:
        self.counts, self.refused, self.renamed, self.moved = Progress(), 0, 0, 0

    def take(self, outcome: Outcome, stored: Output) -> None:
        """An outcome, before it is written."""

    def wrote(self) -> None:
        """The outcome is in the output and in the counts."""

    def begun(self) -> None:
        """The models are loaded."""

    def stopped(self) -> bool:
        """Whether nothing more is to be begun; it is called often, and may raise an error that ends the run."""
        return False


def run(job: Job, source: BackendSource, sink: Sink) -> None:
    """Captions what the output of a job lacks.

    Raises:
        TranscriptError: the output holds something else, or cannot be written.
        SpecdecError: the models cannot be loaded.
    """
    with Output(job.transcripts, job.accepts(), overwrite=job.overwrite) as stored:
        sink.moved = 0 if job.inputs is None else stored.follow(job.inputs)
        tasks = [] if job.listens else job.tasks(stored)
        sink.counts.total = len(tasks)
        sink.renamed = sum(task.renamed for task in tasks) if job.names_people else 0
        if not job.listens and (outcomes := without_models(tasks, job.shared)) is not None:
            _settle(tasks, outcomes, stored, sink)
            return
        wholes = Wholes()
        with source.opened() as backend:
            sink.counts.started = time.monotonic()  # so that the rate leaves loading out
            stored.require(lambda line: loaded_changes(line.head, backend.shared, ("dtype", "weights")))
            sink.begun()
            left = takewhile(lambda _: not sink.stopped(), tasks)
            with closing(backend.run(left, sink.stopped)) as ended:
                for outcome in ended:
                    interrupts.check()  # which may have ended a call of it
                    _keep(outcome, stored, sink, wholes)


def _settle(tasks: Sequence[Task], outcomes: Sequence[Outcome], stored: Output, sink: Sink) -> None:
    """Keeps the outcomes of tasks that are all done, or cannot be opened; of a first run that has none, nothing."""
    if not any(task.lines for task in tasks):
        sink.refused = max((outcome.error.status for outcome in outcomes if outcome.error), default=0)
    for task, outcome in zip(tasks, outcomes, strict=True):
        _keep(outcome, stored, sink, Wholes(), write=not (sink.refused or task.lines))


def _keep(outcome: Outcome, stored: Output, sink: Sink, wholes: Wholes, *, write: bool = True) -> None:
    outcome = wholes.complete(outcome, lambda: stored.transcripts(stored.find(outcome.item)))
    sink.take(outcome, stored)
    if write and outcome.line is not None:
        stored.add(outcome.item.key, outcome.line)
    sink.counts.add(outcome)
    sink.wrote()
