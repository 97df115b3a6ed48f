"""What a person sees of a batch: a bar that is redrawn on a terminal, a line now and then in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.choose import can_redraw, choose_view
from specdec_cli.console.errors import stderr_console
from specdec_cli.console.figures import count, percent, seconds
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, UNICODE, signs_for
from specdec_cli.console.view import View

if TYPE_CHECKING:
    from specdec_cli.batch.progress import Progress as Counts

LOG_EVERY_S: Final = 10.0
"""How often a log gets a line."""

STOPPING: Final = "finishing what has begun (Ctrl-C again stops at once)"


class BatchView:
    """The display of a batch, on stderr: totals and failures at the end, nothing while it runs.

    Args:
        console: where to print.
        view: shows the loading of models.
    """

    def __init__(self, console: Console, view: View) -> None:
        self._console = console
        self._signs = signs_for(console)
        self._view = view

    def loading(self, what: str) -> AbstractContextManager[None]:
        """Say that `what` is being loaded until the block is left."""
        return self._view.loading(what)

    def update(self, counts: Counts) -> None:
        """It begins, or another recording is done."""

    def note(self, text: str) -> None:
        """Say something that is no failure."""
        self._print(Text(clean(text)))

    def stopping(self) -> None:
        """Somebody wants it to end: say what that means. Called in a signal handler, so nothing buffered is used."""
        os.write(sys.stderr.fileno(), f"{STOPPING}\n".encode())

    def finished(self, counts: Counts) -> None:
        """Nothing more comes: how many captions lack the cloud."""
        self.close()
        if counts.degraded:
            line = Text.assemble(("warning:", BAD), f" {count(counts.degraded, 'caption')} degraded: the cloud failed")
            self._print(line)

    def failures(self, counts: Counts, output: str) -> None:
        """The recordings without a caption, as many as were kept; the rest is in `output`."""
        self.close()
        for failed in counts.failures:
            message = paragraph(failed.message)
            place = "" if clean(failed.file) in message else f"{clean(failed.file)}: "
            self._print(Text.assemble(("error:", BAD), f" {place}{message}"))
        if (more := counts.failed - len({failed.file for failed in counts.failures})) > 0:
            self._print(Text(f"... and {more} more; every one has a line with `error` in {clean(output)}"))

    def hint(self, text: str) -> None:
        """What to do next."""
        self._print(Text.assemble(("hint:", DIM), f" {clean(text)}"))

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""
        self._view.close()

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True, highlight=False)

    def _totals(self, counts: Counts) -> None:
        line = Text.assemble((self._signs.ok, GOOD), f" {counts.captioned} captioned")
        if counts.failed:
            line.append_text(Text.assemble("  ", (self._signs.fail, BAD), f" {counts.failed} failed"))
        if counts.degraded:
            line.append_text(Text.assemble("  ", (self._signs.warn, ASKED), f" {counts.degraded} degraded"))
        if counts.skipped:
            line.append(f"  {counts.skipped} done before")
        if counts.captioned:
            line.append(f"  {_dotted(self._signs.dot, [*_facts(counts), f'in {seconds(counts.elapsed_s)}'])}", DIM)
        self._print(line)


class LogView(BatchView):
    """A line every ten seconds, for logs and pipes.

    Args:
        console, view: as above.
        clock: seconds from any start.
    """

    def __init__(self, console: Console, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, view)
        self._clock = clock
        self._next: float | None = None

    def update(self, counts: Counts) -> None:
        """Print how far it is, if that is a while ago."""
        now = self._clock()
        if self._next is None:
            self._next = now + LOG_EVERY_S
        elif now >= self._next:
            self._next = now + LOG_EVERY_S
            self.note(", ".join([_place(counts), *_facts(counts), *_trouble(counts), *_left(counts)]))

    def finished(self, counts: Counts) -> None:
        """The totals."""
        self._totals(counts)


class BarView(BatchView):
    """A bar with the figures behind it, on a terminal whose cursor can be moved."""

    def __init__(self, console: Console, view: View) -> None:
        super().__init__(console, view)
        self._bar: Progress | None = None
        self._ending = False

    def stopping(self) -> None:
        """Say in the bar what that means."""
        self._ending = True
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], facts=STOPPING)

    def update(self, counts: Counts) -> None:
        """Move the bar."""
        if self._bar is None:
            self._bar = Progress(
                SpinnerColumn("dots" if self._signs is UNICODE else "line"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[facts]}", markup=False),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.add_task("", total=None, facts=STOPPING if self._ending else "")
            self._bar.start()
        if self._ending:
            return
        facts = [_place(counts), *_left(counts), *_trouble(counts), *_facts(counts)]
        room = self._console.width - 25
        while len(facts) > 1 and len(_dotted(self._signs.dot, facts)) > room:
            facts.pop()
        total = counts.total
        self._bar.update(
            self._bar.task_ids[0], completed=counts.done, total=total, facts=_dotted(self._signs.dot, facts)
        )

    def finished(self, counts: Counts) -> None:
        """Erase the bar and print the totals."""
        self.close()
        self._totals(counts)

    def close(self) -> None:
        """Erase the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
        super().close()


def choose_batch_view(*, quiet: bool = False, debug: bool = False) -> BatchView:
    """The display for stderr: a bar on a terminal, lines elsewhere and with `debug`, failures alone with `quiet`."""
    console, view = stderr_console(), choose_view(quiet=quiet, debug=debug)
    if quiet:
        return BatchView(console, view)
    if sys.stderr.isatty() and can_redraw() and not debug and not os.environ.get("CI"):
        return BarView(console, view)
    return LogView(console, view)


def _place(counts: Counts) -> str:
    return f"{counts.done}/{counts.total}" if counts.total is not None else count(counts.done, "recording")


def _facts(counts: Counts) -> list[str]:
    facts = [_hours(counts.audio_s)] if counts.audio_s else []
    if counts.tokens_per_s is not None:
        facts.append(f"{counts.tokens_per_s:.1f} tokens/s")
    if counts.rounds:
        facts.append(f"{percent(counts.escalations, counts.rounds)} escalated")
    return facts


def _trouble(counts: Counts) -> list[str]:
    told = ((counts.failed, "failed"), (counts.degraded, "degraded"))
    return [f"{number} {what}" for number, what in told if number]


def _left(counts: Counts) -> list[str]:
    return [] if counts.left_s is None else [f"{seconds(counts.left_s)} left"]


def _hours(audio_s: float) -> str:
    return f"{audio_s / 3600:.2f} h audio" if audio_s >= 36 else f"{audio_s:.1f} s audio"


def _dotted(dot: str, facts: list[str]) -> str:
    return f" {dot} ".join(facts)
