"""One clip at a time, each shown while it comes about."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.batch.local import Prepared, prepare
from specdec_cli.batch.output_file import Task
from specdec_cli.batch.tasks import Outcome, Stopped
from specdec_cli.errors import typed
from specdec_cli.transcript.updates import Update

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

Show = Callable[[Update], None]


class WatchedBackend:
    """Captions tasks one after the other, in the thread that asks for them; `show` gets every update."""

    def __init__(self, captioner: Captioner, show: Show) -> None:
        self.setup, self._captioner, self._show = captioner.setup, captioner, show

    def run(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`."""
        for task in tasks:
            if stopped():
                return
            for ready in prepare(self._captioner, task):
                yield ready if isinstance(ready, Outcome) else caption(ready, self._show)


def caption(clip: Prepared, show: Show) -> Outcome:
    """What became of a clip. Whatever is wrong with it is in its outcome."""
    try:
        if clip.run.error is not None:
            raise clip.run.error
        for update in clip.run:
            show(update)
        return replace(clip.outcome, line=clip.run.finish())
    except Exception as unforeseen:
        error = typed(unforeseen)
        return replace(clip.outcome, line=clip.run.failed(error), error=error)
