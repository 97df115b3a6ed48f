"""Displays for what is not a terminal: a few lines for a log, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.errors import print_error
from specdec_cli.console.figures import seconds
from specdec_cli.console.summary import Tally, classes, one_line
from specdec_cli.console.theme import BAD
from specdec_cli.errors import SpecdecError
from specdec_cli.types import Event, EventText, Finished, Round, Started


class QuietView:
    """Errors, and captions that lack the cloud, and nothing else.

    Args:
        console: where errors go.
        debug: whether they come with their traceback.
    """

    def __init__(self, console: Console, *, debug: bool = False) -> None:
        self._console = console
        self._debug = debug
        self._clip: Started | None = None

    @property
    def shows_caption(self) -> bool:
        """Never."""
        return False

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:  # noqa: ARG002 - the protocol's name
        """Say nothing."""
        yield

    def started(self, event: Started) -> None:
        """Say nothing."""
        self._clip = event

    def event(self, event: Event, text: EventText) -> None:  # noqa: ARG002 - the protocol's name
        """Print why the cloud did not take part in a clip, where it should have."""
        if isinstance(event, Finished) and event.degraded is not None:
            file = f"{clean(self._clip.file)}: " if self._clip else ""
            line = Text.assemble(("warning:", BAD), f" {file}degraded: {clean(event.degraded)}")
            self._console.print(line, soft_wrap=True)

    def failed(self, file: str, error: SpecdecError) -> None:
        """Print the error and what to do about it."""
        print_error(error, file=file, debug=self._debug, console=self._console)

    def finished_all(self, done: int, failed: int) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Nothing to give back."""


class PlainView(QuietView):
    """One line when a clip starts and one when it is done, for logs and pipes."""

    def __init__(self, console: Console, *, debug: bool = False) -> None:
        super().__init__(console, debug=debug)
        self._tally = Tally()

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:
        """Print `what` before it begins."""
        self._print(f"loading {what} ...")
        yield

    def started(self, event: Started) -> None:
        """Print the file and its length."""
        self._clip, self._tally = event, Tally()
        found = ", no speech found" if event.no_speech else ""
        self._print(f"{event.file}: {seconds(event.duration_s)}, {event.language}, {event.mode}{found}")
        for warning in event.warnings:
            self._print(f"warning: {warning}")

    def event(self, event: Event, text: EventText) -> None:
        """Count rounds; print the totals at the end, and the labels if there are any."""
        if isinstance(event, Round):
            self._tally.add(event)
        elif isinstance(event, Finished) and self._clip is not None:
            self._print(f"{self._clip.file}: {one_line(self._tally, event, self._clip.mode)}")
            if text.labels is not None:
                self._print(f"{self._clip.file}: {classes(text.labels, ', ')}")

    def finished_all(self, done: int, failed: int) -> None:
        """Say how many there were, if there were several."""
        if done + failed > 1:
            self._print(f"{done} captioned, {failed} failed")

    def _print(self, line: str) -> None:
        self._console.print(Text(clean(line)), soft_wrap=True, highlight=False)
