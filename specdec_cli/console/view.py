"""What a display has to offer, and the displays for what is not a terminal: errors alone, or a few lines."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.clip import count_flags, flagged, summary
from specdec_cli.console.plain import print_error, print_line
from specdec_cli.console.theme import ASKED, BAD, DIM
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, seconds, volume
from specdec_cli.types import Event, EventText, Finished, Flag, Round, Started, Update

if TYPE_CHECKING:
    from specdec_cli.models.download import Download, Watch

LINE_EVERY_S: Final = 10.0
"""Time between two lines of a log on how far a command is."""
_FEWEST: Final = 4  # steps before an estimate is more than a guess


class View:
    """A display of clips, one after the other, or of steps, that shows errors and warnings and nothing else.

    Args:
        console: where.
        debug: errors come with their traceback.
        clock: seconds from any start.
    """

    shows_caption = False
    """Whether the finished caption is part of the display."""

    def __init__(self, console: Console, *, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._debug = debug
        self._clock = clock
        self._clip: Started | None = None
        self._rounds: list[Round] = []
        self._done = 0
        self._delays: list[float] = []
        self._flags = Counter[Flag]()
        self._degraded = 0  # captions that the edge finished without the cloud
        self._steps, self._taken, self._begun = 0, 0, clock()
        self._printed_s = clock()  # a line on steps

    @contextmanager
    def loading(self, what: str) -> Iterator[Watch | None]:  # noqa: ARG002 - for displays that show it
        """Show that `what` is being loaded, e.g. "edge: mini-edge", until the block is left; show its download."""
        yield None

    def _watch(self, download: Download, done: int) -> None:
        """Show a download before it begins, and how far it is."""
        if done == 0:
            self._begun = self._clock()
            self.say(str(download))
        rate = done / max(self._clock() - self._begun, 1e-3)
        facts = [f"{volume(done)} of {volume(download.bytes)}", f"{volume(rate)}/s"]
        self.progress(done, download.bytes, facts)

    def show(self, update: Update) -> None:
        """Show one step of a run."""
        if isinstance(update.event, Started):
            self.started(update.event)
        else:
            self.event(update.event, update.text)

    def started(self, event: Started) -> None:
        """A clip is about to be decoded."""
        self._clip, self._rounds = event, []

    def event(self, event: Event, text: EventText) -> None:
        """Something happened to the clip that was started last."""
        if isinstance(event, Round):
            self._rounds.append(event)
        elif isinstance(event, Finished):
            self._done += 1
            self._flags.update(text.flags)
            self._degraded += event.degraded is not None
            self._finished(event, text)

    def _finished(self, event: Finished, text: EventText) -> None:
        """Show why the cloud did not take part in a clip, where it should have, and what makes it no description."""
        degraded = [] if event.degraded is None else [f"degraded: {clean(event.degraded)}"]
        for warning in (*degraded, *filter(None, [flagged(text.flags)])):
            self.warn(f"{self._clip.file}: {warning}" if self._clip else warning)

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        self.close()
        self._steps, self._taken, self._begun = steps, 0, self._clock()
        self._step_taken("")

    def step(self, what: str) -> None:
        """A step is about to be taken."""
        self._step_taken(what)

    def advance(self) -> None:
        """A step was taken."""
        self._taken += 1
        self._step_taken("")

    def _step_taken(self, doing: str) -> None:
        """Show `12 of 400`, `3%`, `about 2 min 11 s left`, `4.10 s`."""
        elapsed, done, total = self._clock() - self._begun, self._taken, self._steps
        facts = [f"{done:,} of {total:,}", f"{100 * done // max(total, 1)}%", seconds(elapsed)]
        if _FEWEST <= done < total:
            facts.insert(2, f"about {seconds(elapsed / done * (total - done))} left")
        self.progress(done, total, facts, doing)

    def progress(self, done: int, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        """Show how far a command is; `total` is None as long as it is not known, `doing` is the step that follows."""

    def say(self, sentence: str | Text, *, good: bool = True) -> None:
        """Show something that is no error; `good`: nor a warning."""

    def warn(self, sentence: str) -> None:
        """Show what is wrong with results that are kept."""
        print_line(self._console, Text(clean(sentence)), Text("warning:", BAD))

    def hint(self, sentence: str) -> None:
        """Show what to do next."""
        print_line(self._console, Text(clean(sentence)), Text("hint:", DIM))

    def listening(self, level_dbfs: float) -> None:
        """Sound of this level came from the microphone."""

    def delayed(self, delay_s: float) -> None:
        """The caption that was just finished came so long after the end of its utterance."""
        self._delays.append(delay_s)
        self.say(f"caption {seconds(delay_s)} after the end of the utterance")

    def stopping(self, what: str) -> None:
        """The user wants it to end: show `what` is done first. Called in a signal handler: nothing buffered is used."""
        os.write(sys.stderr.fileno(), f"{what} (Ctrl-C again stops at once)\n".encode())

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording could not be used; the next one may follow."""
        print_error(error, file=file, debug=self._debug, console=self._console)

    def interrupted(self, output: Path | None) -> None:
        """The user stopped it: show what is kept, transcripts in `output` if there is one."""
        kept = "nothing was captioned yet"
        if self._done and output is not None:
            kept = f"{count(self._done, 'caption')} finished and kept in {output}; the same command goes on"
        elif self._done:
            kept = f"{count(self._done, 'caption')} finished, no transcript kept (--output keeps them)"
        self.close()
        self._space()
        self.say(f"interrupted: {kept}", good=False)

    def finished_all(self, done: int, failed: int, facts: Sequence[str] = ()) -> None:
        """No more clips: `done` were captioned and `failed` were not; `facts` is what else there is to say of them."""
        if done + failed > 1 or facts:
            total = Text(f"{done} captioned").append(f", {failed} failed", BAD if failed else "")
            if self._flags:
                total.append(f", {count_flags(self._flags)}", ASKED)
            if self._degraded:
                total.append(f", {self._degraded} by the edge alone: the cloud failed", ASKED)
            self._space()
            self.say(total.append("".join(f"; {clean(fact)}" for fact in facts)), good=done > 0)
        if self._delays:
            typical, longest = seconds(median(self._delays)), seconds(max(self._delays))
            self.say(f"captions came {typical} after their utterances (median), {longest} at most")

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""

    def _space(self) -> None:
        """Set what follows apart from what was printed."""


class PlainView(View):
    """One line when a clip starts, one when it is done, and one every few seconds on steps, for logs and pipes."""

    @contextmanager
    def loading(self, what: str) -> Iterator[Watch]:
        """Print `what` before it begins, and how far a download is."""
        self.say(f"loading {what} ...")
        yield self._watch

    def started(self, event: Started) -> None:
        """Print the file and its length."""
        super().started(event)
        place = f"{event.file}: {seconds(event.duration_s)}, {event.language}, {event.mode}"
        if event.piece is not None:
            place = f"{event.file}, {_name(event)}: {event.start_s or 0.0:.2f} to {event.end_s or 0.0:.2f} s"
        self.say(f"{place}, no speech found" if event.no_speech else place)
        for warning in event.warnings:
            self.say(f"warning: {warning}")

    def _finished(self, event: Finished, text: EventText) -> None:
        """Print what it came to, all in one line."""
        if self._clip is not None:
            facts = summary(self._clip, self._rounds, event, text)
            self.say(f"{_name(self._clip)}: {'; '.join(f'{label} {words}' for label, words in facts)}")

    def progress(self, done: int, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        """Print the facts now and then, and at the end."""
        now = self._clock()
        if done and not doing and (done == total or now - self._printed_s >= LINE_EVERY_S):
            self._printed_s = now
            self.say(", ".join(facts))

    def say(self, sentence: str | Text, *, good: bool = True) -> None:  # noqa: ARG002 - a log has no signs
        """Print it."""
        print_line(self._console, Text(clean(str(sentence))))


def _name(clip: Started) -> str:
    """The file; of one of its pieces, which."""
    return clip.file if clip.piece is None else f"piece {clip.piece + 1} of {clip.pieces}"
