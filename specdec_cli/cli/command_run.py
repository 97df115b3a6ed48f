"""What commands over many recordings share: their run, Ctrl-C, and the result as JSON or as a page."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.console.live import choose_view
from specdec_cli.console.plain import write_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from specdec_cli.errors import SpecdecError
    from specdec_cli.inputs.recording import InputFile

FAILED: Final = 1
INTERRUPTED: Final = 130


def exit_code(*, interrupted: bool, failed: bool) -> int:
    """How a command over many recordings ends; see `app.EXIT_CODES`."""
    return INTERRUPTED if interrupted else FAILED if failed else 0


@contextmanager
def interruptible(*callbacks: Callable[[], None]) -> Iterator[list[int]]:
    """Within the block the first Ctrl-C calls `callbacks`, and the second ends the process at once.

    Gives a list that is not empty after the first.
    """
    interrupts: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt
        for call in callbacks:
            call()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


class CommandRun:
    """One run of a command over recordings: its display, Ctrl-C, the recordings that failed, the exit code.

    `with CommandRun(...) as work`, then `return work.code()`. Ctrl-C ends the block without an error and sets
    `interrupted`; the terminal is given back in any case.

    Args:
        quiet: show no progress.
        debug: show tracebacks.
        interruption: message on Ctrl-C.
    """

    def __init__(self, *, quiet: bool, debug: bool, interruption: str = "interrupted") -> None:
        self.view = choose_view(quiet=quiet, debug=debug, steps=True)
        self.begin, self.step, self.advance = self.view.begin, self.view.step, self.view.advance
        self.interrupted = False
        self._interruption = interruption
        self._failed: set[str] = set()

    def __enter__(self) -> CommandRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> bool:
        self.view.close()
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return False
        self.interrupted = True
        self.view.say(self._interruption, good=False)
        return True

    @contextmanager
    def libraries(self) -> Iterator[None]:
        """Imports that take seconds."""
        with self.view.loading("PyTorch"):
            yield

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording cannot be used."""
        self._failed.add(file)
        self.view.failed(file, error)

    def code(self) -> int:
        """The exit code."""
        return exit_code(interrupted=self.interrupted, failed=bool(self._failed))

    def identified(self, files: Sequence[str]) -> list[InputFile]:
        """The recordings by their bytes; a copy of another one is left out, and named."""
        from specdec_cli.inputs.find import identify

        recordings, copies = identify(files)
        for copy, original in copies.items():
            self.view.say(f"{copy} holds the same bytes as {original} and is left out", good=False)
        return recordings


def emit(found: BaseModel, page: Callable[..., Any], *, json: bool, **shown: Any) -> None:
    """Prints a result: one JSON object, or its page."""
    if json:
        write_line(found.model_dump_json(by_alias=True))
    else:
        page(found, **shown)
