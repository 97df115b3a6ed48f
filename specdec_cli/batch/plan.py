"""What is still to do: the recordings of a batch, less those that the output holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from specdec_cli.audio.files import content_of, is_there
from specdec_cli.batch.begun import Note
from specdec_cli.batch.output import Entry, Output
from specdec_cli.batch.tasks import Outcome, Progress, Task
from specdec_cli.errors import AudioError
from specdec_cli.inputs.find import unreadable
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.inputs.recording import InputFile, Key, stored_path

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
        self._moved = _moved(output)
        self._tasks: Iterator[Task] | None = None  # once somebody has looked ahead
        self.finished = False  # whether there is nothing to caption; known then

    def __iter__(self) -> Iterator[Task]:
        """Each recording once: to be captioned, to be compared with what was captioned, or known to be done."""
        return self._found() if self._tasks is None else self._tasks

    def look_ahead(self, begun: Note) -> Progress:
        """Passes over recordings that are done already, up to the first that can be captioned.

        Args:
            begun: notes what is opened.

        Returns:
            The counts of those passed over; the plan goes on behind them. Recordings that failed before and still
            cannot be opened are passed over too where nothing else is left.

        Raises:
            AudioError: none of what is to do can be opened, and the output has nothing yet.
        """
        found, progress, todo = self._found(), Progress(), list[Task]()
        refused: list[AudioError] = []
        for task in found:
            if is_done(task):
                progress.add(Outcome(task.item))
                continue
            todo.append(task)
            if task.item.path in begun.suspects or len(todo) == _LOOKED_AT:
                break
            with begun.decoding(task.item.path):
                error = unreadable(task.item)
            if error is None:
                break
            refused.append(error)
        else:
            if all(_failed(self._output.find(task.item.key)) for task in todo):
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
            begun += entry is None or entry.retry is not None
            if self._limit is not None and begun > self._limit:
                break
            total += 1
        return total

    def _found(self) -> Iterator[Task]:
        begun = 0
        for item in self._items():
            task = self._task(item)
            if task.known is None and not task.done:
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

    def _task(self, item: InputFile) -> Task:
        entry = self._output.find(item.key)
        if entry is None:
            return Task(item, done=self._was_moved(item))
        return Task(item, known=None if entry.retry is not None else entry.sha256, begun=entry.begun)

    def _was_moved(self, item: InputFile) -> bool:
        """Whether the output has this content under a name that no file has any more; each line counts once."""
        if not self._moved:
            return False
        content = content_of(item.path)
        names = self._moved.get((content, item.id)) if content else None
        if not names:
            return False
        names.pop()
        return True


def is_done(task: Task) -> bool:
    """Whether the output has a caption of the recording as it is; what cannot be read any more has its caption too."""
    return task.done or (task.known is not None and content_of(task.item.path) in (task.known, None))


def _moved(output: Output) -> dict[tuple[str, str | None], list[Key]]:
    """Content and id -> recordings that were captioned and are not there any more."""
    moved: dict[tuple[str, str | None], list[Key]] = defaultdict(list)
    for key, entry in output.entries():
        if entry.retry is None and entry.sha256 is not None and not is_there(stored_path(key.path)):
            moved[entry.sha256, key.id].append(key)
    return dict(moved)


def _failed(entry: Entry | None) -> bool:
    return entry is not None and entry.retry is not None
