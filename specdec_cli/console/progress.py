"""Work of a known number of steps: a bar with an estimate of what is left, or now and then a line of a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.text import Text

from specdec_cli.console.cells import clean, fit, hanging
from specdec_cli.console.choose import can_redraw
from specdec_cli.console.errors import print_error, stderr_console
from specdec_cli.console.figures import seconds
from specdec_cli.console.theme import ASKED, DIM, GOOD, signs_for
from specdec_cli.errors import SpecdecError

LINE_EVERY_S: Final = 10.0
"""Time between two lines of a log."""
_BAR: Final = 24  # cells
_REFRESHES: Final = 4  # a second: what is measured shall not notice
_FEWEST: Final = 4  # steps before an estimate is more than a guess


class QuietSteps:
    """Errors, and nothing else.

    Args:
        console: where to print.
        debug: whether errors come with their traceback.
        clock: seconds from any start.
    """

    def __init__(self, console: Console, *, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._debug = debug
        self._clock = clock
        self._begun = self._said = clock()
        self._steps = self._done = 0

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:
        """Say that `what` is being loaded."""
        self.say(f"loading {what} ...")
        yield

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        self._steps, self._done = steps, 0
        self._begun = self._said = self._clock()

    def step(self, what: str) -> None:
        """A step is about to be taken."""

    def advance(self) -> None:
        """A step was taken."""
        self._done += 1

    def say(self, sentence: str) -> None:
        """Tell something that is no error."""

    def failed(self, file: str, error: SpecdecError) -> None:
        """Print the error and what to do about it."""
        print_error(error, file=file, debug=self._debug, console=self._console)

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""

    def _state(self, *shares: str) -> str:
        """`12 of 400, 4.10 s, about 2 min 11 s left`, with `shares` after the first of them."""
        elapsed = self._clock() - self._begun
        facts = [f"{self._done} of {self._steps}", *shares, seconds(elapsed)]
        if _FEWEST <= self._done < self._steps:
            facts.append(f"about {seconds(elapsed / self._done * (self._steps - self._done))} left")
        return ", ".join(facts)


class LogSteps(QuietSteps):
    """A line every few seconds, for logs and pipes."""

    def advance(self) -> None:
        """Print how far it is, if the last line is old enough or nothing is left to do."""
        super().advance()
        now = self._clock()
        if self._done == self._steps or now - self._said >= LINE_EVERY_S:
            self._said = now
            self.say(self._state(f"{100 * self._done // max(self._steps, 1)}%"))

    def say(self, sentence: str) -> None:
        """Print it as one line."""
        self._console.print(Text(clean(sentence)), soft_wrap=True, highlight=False)


class BarSteps(QuietSteps):
    """One line that is redrawn: a bar, what goes on, and how long it will go on."""

    def __init__(self, console: Console, *, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, debug=debug, clock=clock)
        self._signs = signs_for(console)
        self._what = ""
        self._progress: Progress | None = None

    def begin(self, steps: int) -> None:
        """Open the line."""
        super().begin(steps)
        self.close()
        line = _Line(self._text)
        self._progress = Progress(
            line,
            console=self._console,
            refresh_per_second=_REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.add_task("", total=steps)
        self._progress.start()

    def step(self, what: str) -> None:
        """Name the step."""
        self._what = what

    def say(self, sentence: str) -> None:
        """Print it above the line."""
        for line in hanging(Text(" "), Text(clean(sentence), DIM), 1, self._console.width):
            self._console.print(line)

    def close(self) -> None:
        """Erase the line."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.stop()

    def _text(self) -> Text:
        length = min(_BAR, self._console.width // 4)
        filled = length * self._done // max(self._steps, 1)
        full, empty = self._signs.bars[-1], self._signs.rule
        bar = Text.assemble((full * filled, GOOD), (empty * (length - filled), DIM))
        room = self._console.width - length - 4
        state = fit(self._state(), room, self._signs.ellipsis)
        what = fit(clean(self._what), room - len(state) - 3, self._signs.ellipsis) if room - len(state) > 12 else ""
        return Text.assemble(" ", bar, " ", state, "  " if what else "", (what, ASKED))


class _Line(ProgressColumn):
    """The whole line, drawn by whoever knows the state."""

    max_refresh = None

    def __init__(self, text: Callable[[], Text]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:  # noqa: ARG002 - the library's name
        return self._text()


def choose_steps(*, quiet: bool = False, debug: bool = False) -> QuietSteps:
    """The display for stderr: a bar where lines can be redrawn, else a log."""
    console = stderr_console()
    if quiet:
        return QuietSteps(console, debug=debug)
    if sys.stderr.isatty() and can_redraw() and not debug and not os.environ.get("CI"):
        return BarSteps(console, debug=debug)
    return LogSteps(console, debug=debug)
