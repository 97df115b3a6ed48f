"""What a display of a run has to offer, whatever it looks like."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from specdec_cli.errors import SpecdecError
from specdec_cli.types import Event, EventText, Started, Update


class View(Protocol):
    """A display of one or several clips, one after the other. All of it goes to stderr."""

    @property
    def shows_caption(self) -> bool:
        """Whether the finished caption is part of the display."""
        ...

    def loading(self, what: str) -> AbstractContextManager[None]:
        """Say that `what` is being loaded, e.g. "edge: mini-edge", until the block is left."""
        ...

    def started(self, event: Started) -> None:
        """A clip is about to be decoded."""
        ...

    def event(self, event: Event, text: EventText) -> None:
        """Something happened to the clip that was started last."""
        ...

    def failed(self, file: str, error: SpecdecError) -> None:
        """A clip could not be captioned; the next one may follow."""
        ...

    def finished_all(self, done: int, failed: int) -> None:
        """No more clips: `done` were captioned and `failed` were not."""
        ...

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""
        ...


def show(view: View, update: Update) -> None:
    """Pass one step of a run on to `view`."""
    if isinstance(update.event, Started):
        view.started(update.event)
    else:
        view.event(update.event, update.text)
