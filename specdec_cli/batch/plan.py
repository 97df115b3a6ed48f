"""What is still to do, and doing it: the recordings of a batch, less those that the output holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from typing import Final

from specdec_cli.batch.output_file import Entry, Output
from specdec_cli.batch.tasks import Backend, Outcome, Progress, Task
from specdec_cli.errors import SpecdecError
from specdec_cli.inputs.find import unreadable
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.inputs.recording import InputFile

_LOOKED_AT: Final = 16  # recordings that are opened to see whether any can be captioned, before models are loaded


class Plan:
    """The tasks of a run, found while it is iterated.

    Args:
        inputs: the recordings; None: those that failed before.
        limit: most recordings to caption; None: all.
        only_failed: leave out what did not fail before.
    """

    def __init__(self, inputs: Inputs | None, output: Output, *, limit: int | None, only_failed: bool) -> None:
        self._inputs, self._output, self._limit = inputs, output, limit
        self._only_failed = only_failed or inputs is None
        self._tasks: Iterator[Task] | None = None  # after `look_ahead`
        self.finished = False  # whether there is nothing to caption; known then

    def __iter__(self) -> Iterator[Task]:
        """Each recording once: to be captioned, or to be compared with what was captioned."""
        return self._found() if self._tasks is None else self._tasks

    def look_ahead(self) -> Progress:
        """Passes over recordings that are done already, up to the first that can be captioned.

        Returns:
            The counts of those passed over; the plan goes on behind them. Recordings that failed before and still
            cannot be opened are passed over too where nothing else is left.

        Raises:
            SpecdecError: none of what is to do can be opened, and the output has nothing yet.
        """
        found, progress, todo = self._found(), Progress(), list[Task]()
        refused: list[SpecdecError] = []
        for task in found:
            if task.done:
                progress.add(Outcome.before(task))
                continue
            todo.append(task)
            error = unreadable(task.item) if len(todo) < _LOOKED_AT else None
            if error is None:
                break
            refused.append(error)
        else:
            if all(_failed(task.entry) for task in todo):
                for task, reason in zip(todo, refused, strict=True):
                    progress.add_failure(task.item.path, reason)
                todo = []
            elif not len(self._output):
                more = f" {len(refused) - 1} more cannot be captioned either." if refused[1:] else ""
                raise type(refused[0])(refused[0].message + more, hint=refused[0].hint)
        self._tasks = chain(todo, found)
        self.finished = not todo
        return progress

    def count(self) -> int:
        """How many tasks there will be; scans folders, and looks into no file."""
        total = begun = 0
        for item in self._items():
            entry = self._output.find(item.key)
            begun += entry is None or not entry.settled
            if self._limit is not None and begun > self._limit:
                break
            total += 1
        return total

    def run(
        self,
        backend: Backend,
        progress: Progress,
        report: Callable[[Progress], None],
        interrupted: Sequence[int],
        *,
        fail_fast: bool,
    ) -> None:
        """Captions the tasks: every outcome to the output and to the counts, until all are done.

        Args:
            backend: where to do it.
            progress: counts of what was passed over; those of the run are added to them.
            report: called with the counts at the start and after every recording.
            interrupted: not empty once the user has interrupted it.
            fail_fast: whether the first failure ends the run.

        Raises:
            TranscriptError: the output cannot be written.
        """

        def count() -> None:  # in a thread: it may take as long as scanning a large disk
            with suppress(OSError):  # what is counted may go away, and the run with it
                progress.total = self.count()

        def deliver(outcome: Outcome) -> None:
            if not outcome.skipped:
                self._output.append(outcome.item.key, outcome.lines)
            progress.add(outcome)
            if fail_fast and outcome.failed:
                failed.append(outcome)
            report(progress)

        def stopped() -> bool:
            return bool(interrupted or failed)

        failed: list[Outcome] = []
        threading.Thread(target=count, daemon=True).start()
        report(progress)
        backend.run(takewhile(lambda _: not stopped(), self), deliver, stopped)

    def _found(self) -> Iterator[Task]:
        begun = 0
        for item in self._items():
            task = Task(item, self._output.find(item.key))
            if task.entry is None or not task.entry.settled:
                if begun == self._limit:
                    return
                begun += 1
            yield task

    def _items(self) -> Iterator[InputFile]:
        if self._inputs is None:
            yield from [entry.retry for _, entry in self._output.entries() if entry.retry is not None]
            return
        for item in self._inputs:
            if not self._only_failed or _failed(self._output.find(item.key)):
                yield item


def _failed(entry: Entry | None) -> bool:
    return entry is not None and entry.retry is not None
