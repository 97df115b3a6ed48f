"""How far a long command is: a bar on a terminal, a line now and then in a log; totals and failures of a batch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.clip import count_flags
from specdec_cli.console.live import LiveView, can_redraw, spinner
from specdec_cli.console.plain import console_on, print_error, print_line
from specdec_cli.console.theme import ASKED, BAD, DIM, DOT, FAIL, GOOD, OK, WARN
from specdec_cli.console.view import PlainView, View
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, percent, seconds

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Progress as Counts
    from specdec_cli.models.download import Watch

LINE_EVERY_S: Final = 10.0
"""Time between two lines of a log."""
STOPPING: Final = "finishing what has begun (Ctrl-C again stops at once)"
_BAR: Final = 20  # cells, where there is room
_FEWEST: Final = 4  # steps before an estimate is more than a guess

Show = Literal["errors", "log", "bar"]


class Steps:
    """The progress of a command: errors alone, a line every few seconds, or a bar that is redrawn.

    `clock`: seconds from any start; `debug`: errors come with their traceback.
    """

    def __init__(
        self, console: Console, show: Show, *, debug: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._show = show
        self._debug = debug
        self._clock = clock
        self._view = {"errors": View, "log": PlainView, "bar": LiveView}[show](console, debug=debug)
        self._bar: Progress | None = None
        self._begun: float | None = None
        self._printed_at = 0.0
        self._total: int | None = None
        self._done = 0
        self._ending = False

    def loading(self, what: str) -> AbstractContextManager[Watch | None]:
        """Show that `what` is being loaded until the block is left."""
        return self._view.loading(what)

    def begin(self, steps: int | None) -> None:
        """There are so many steps to take; None: not known yet."""
        self.close()
        self._total, self._done = steps, 0
        self._begun = self._printed_at = self._clock()
        if self._show == "bar":
            self._bar = Progress(
                SpinnerColumn(spinner(self._console), style=ASKED),
                BarColumn(self._bar_width),
                TextColumn("{task.fields[facts]}", markup=False),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.add_task("", total=steps, facts=STOPPING if self._ending else "")
            self._bar.start()

    def step(self, what: str) -> None:
        """A step is about to be taken."""
        self._draw([*self._facts(), clean(what)])

    def advance(self) -> None:
        """A step was taken."""
        self._done += 1
        self._show_facts(self._facts())

    def update(self, counts: Counts) -> None:
        """A batch begins, or another of its recordings is done."""
        if self._begun is None:
            self.begin(counts.total)
        self._total, self._done = counts.total, counts.done
        place = f"{counts.done:,} of {counts.total:,}" if counts.total is not None else count(counts.done, "recording")
        left = [f"{seconds(counts.left_s)} left"] if counts.left_s is not None else []
        numbers = ((counts.failed, "failed"), (counts.degraded, "degraded"))
        self._show_facts([place, *left, *(f"{number} {what}" for number, what in numbers if number), *_rates(counts)])

    def say(self, sentence: str) -> None:
        """Print something that is no error."""
        if self._show != "errors":
            self._print(clean(sentence))

    def failed(self, file: str, error: SpecdecError) -> None:
        """Print the error and what to do about it."""
        print_error(error, file=file, debug=self._debug, console=self._console)

    def stopping(self) -> None:
        """The user wants it to end: show what that means. Called in a signal handler: nothing buffered is used."""
        self._ending = True
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], facts=STOPPING)
        elif self._show != "bar":
            os.write(sys.stderr.fileno(), f"{STOPPING}\n".encode())

    def finished(self, counts: Counts, output: str) -> None:
        """A batch is over: its totals and where its captions are.

        Of errors alone, how many captions lack the cloud or describe nothing.
        """
        self.close()
        if self._show == "errors":
            if counts.degraded:
                self._labelled("warning", f"{count(counts.degraded, 'caption')} degraded: the cloud failed")
            if counts.flags:
                self._labelled("warning", f"captions that are no description: {count_flags(counts.flags)}")
            return
        kept = counts.captioned or counts.in_part or counts.skipped
        found, pieces = counts.pieces
        line = Text.assemble((f"{OK} " if kept else "", GOOD), f"{counts.captioned:,} captioned")
        for number, what, sign, style in (
            (counts.in_part, f"in part ({found:,} of {pieces:,} pieces)", "", ""),
            (counts.failed, "failed", f"{FAIL} ", BAD),
            (counts.degraded, "degraded", f"{WARN} ", ASKED),
            (counts.skipped, "done before", "", ""),
            (counts.empty, "without anything to describe, as found before", "", ""),
        ):
            if number:
                line.append(f"  {sign}", style).append(f"{number:,} {what}")
        if counts.flags:
            line.append(f"  {WARN} ", ASKED).append(count_flags(counts.flags))
        if counts.captioned:
            line.append(f"  {DOT.join([*_rates(counts), f'in {seconds(counts.elapsed_s)}'])}", DIM)
        self._print(line)
        if kept or counts.tokens:
            self._print(f"captions are in {clean(output)}")

    def failures(self, counts: Counts, output: str) -> None:
        """The recordings without a caption, as many as were kept; the rest is in `output`."""
        self.close()
        for file, reason in counts.failures:
            message = paragraph(reason)
            self._labelled("error", message if clean(file) in message else f"{clean(file)}: {message}")
        if (more := counts.failed + counts.in_part - len({file for file, _ in counts.failures})) > 0:
            self._print(f"... and {more:,} more; every one has a line with `error` in {clean(output)}")

    def hint(self, text: str) -> None:
        """What to do next."""
        self._labelled("hint", clean(text), DIM)

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
        self._view.close()

    @property
    def _bar_width(self) -> int:
        return min(_BAR, self._console.width // 4)

    def _facts(self) -> list[str]:
        """`12 of 400`, `3%`, `about 2 min 11 s left`, `4.10 s`."""
        elapsed, total = self._clock() - (self._begun or 0.0), self._total or 0
        facts = [f"{self._done:,} of {total:,}", f"{100 * self._done // max(total, 1)}%", seconds(elapsed)]
        if _FEWEST <= self._done < total:
            facts.insert(2, f"about {seconds(elapsed / self._done * (total - self._done))} left")
        return facts

    def _draw(self, facts: list[str]) -> None:
        """The facts beside the bar, as far as there is room."""
        if self._bar is not None and not self._ending:
            text = Text(DOT.join(facts))
            text.truncate(self._console.width - self._bar_width - 4, overflow="ellipsis")
            self._bar.update(self._bar.task_ids[0], completed=self._done, total=self._total, facts=text.plain)

    def _show_facts(self, facts: list[str]) -> None:
        """Draw the facts, or write them into a log now and then."""
        self._draw(facts)
        now = self._clock()
        if self._show == "log" and (self._done == self._total or now - self._printed_at >= LINE_EVERY_S):
            self._printed_at = now
            self.say(", ".join(facts))

    def _labelled(self, label: str, sentence: str, style: str = BAD) -> None:
        print_line(self._console, Text(sentence), Text(f"{label}:", style))

    def _print(self, line: str | Text) -> None:
        print_line(self._console, line if isinstance(line, Text) else Text(line))


def choose_steps(*, quiet: bool = False, debug: bool = False) -> Steps:
    """The display for stderr: a bar where lines can be redrawn, else a log; with `quiet` errors alone."""
    show: Show = "errors" if quiet else "bar" if can_redraw(debug=debug) else "log"
    return Steps(console_on(stderr=True), show, debug=debug)


def _rates(counts: Counts) -> list[str]:
    facts = [f"{seconds(counts.audio_s)} of audio"] if counts.audio_s else []
    if counts.tokens_per_s is not None:
        facts.append(f"{counts.tokens_per_s:.1f} tokens/s")
    if counts.edge_ms and counts.clips_per_s is not None:
        facts.append(f"{counts.clips_per_s:.1f} clips/s")
        edge = counts.edge_ms / (counts.edge_ms + counts.cloud_ms)
        facts.append(f"edge {percent(edge)} and cloud {percent(1 - edge)} of the time at servers")
    if counts.escalation_rate is not None:
        facts.append(f"{percent(counts.escalation_rate)} of blocks escalated")
    return facts
