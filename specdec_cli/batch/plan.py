"""What is still to do: the recordings of a batch, less those that the output holds."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

from specdec_cli.audio.files import content_of
from specdec_cli.batch.output import Entry, Output
from specdec_cli.batch.tasks import Task
from specdec_cli.inputs.find import Inputs
from specdec_cli.inputs.recording import InputFile, Key


class Plan:
    """The tasks of a run, found while it is iterated.

    Args:
        inputs: the recordings; None: those that failed before.
        output: what is there.
        limit: most recordings to caption; None: all.
        only_failed: leave out what did not fail before.
    """

    def __init__(self, inputs: Inputs | None, output: Output, *, limit: int | None, only_failed: bool) -> None:
        self._inputs = inputs
        self._output = output
        self._limit = limit
        self._only_failed = only_failed or inputs is None
        self._moved = _moved(output)

    def __iter__(self) -> Iterator[Task]:
        """Each recording once: to be captioned, to be compared with what was captioned, or known to be done."""
        begun = 0
        for item in self._items():
            task = self._task(item)
            if task.known is None and not task.done:
                if begun == self._limit:
                    return
                begun += 1
            yield task

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
        return Task(item, known=None if entry.retry is not None else entry.sha256)

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


def _moved(output: Output) -> dict[tuple[str, str | None], list[Key]]:
    """Content and id -> recordings that were captioned and are not there any more."""
    moved: dict[tuple[str, str | None], list[Key]] = defaultdict(list)
    for key, entry in output.entries():
        if entry.retry is None and entry.sha256 is not None and not os.path.exists(key.path):
            moved[entry.sha256, key.id].append(key)
    return dict(moved)


def _failed(entry: Entry | None) -> bool:
    return entry is not None and entry.retry is not None
