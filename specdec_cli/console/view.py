"""What a display has to offer, and the displays for what is not a terminal: errors alone, or a few lines."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.clip import count_flags, flagged, summary
from specdec_cli.console.plain import print_error, print_line
from specdec_cli.console.theme import ASKED, BAD, DIM
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, seconds, volume
from specdec_cli.transcript.records import Started
from specdec_cli.types import Event, EventText, Finished, Flag, Round, Update

if TYPE_CHECKING:
    from specdec_cli.models.download import Download, Watch

LINE_EVERY_S: Final = 10.0
"""Time between two lines of a log on how far a command is."""


class View:
    """A display in plain lines, for logs and pipes, of clips one after the other or of steps.

    Two lines a clip, and one every few seconds on steps. `quiet`: errors and warnings alone; `debug`: errors come with
    their traceback; `clock`: seconds from any start.
    """

    shows_caption = False
    """Whether the finished caption is part of the display."""

    def __init__(
        self,
        console: Console,
        *,
        quiet: bool = False,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._quiet, self._debug, self._clock = console, quiet, debug, clock
        self._clip: Started | None = None
        self._rounds: list[Round] = []
        self._done = 0
        self._flags = Counter[Flag]()
        self._degraded = 0  # captions that the edge finished without the cloud
        self._steps, self._taken, self._begun = 0, 0, clock()
        self._printed_s = clock()  # a line on steps

    @contextmanager
    def loading(self, what: str) -> Iterator[Watch]:
        """Show that `what` is being loaded, e.g. "edge: mini-edge", until the block is left; show its download."""
        self.say(f"loading {what} ...")
        yield self._watch

    def _watch(self, download: Download, done: int) -> None:
        """Show a download before it begins, and how far it is."""
        if done == 0:
            self.say(str(download))
        self.progress(done, download.bytes, [f"{volume(done)} of {volume(download.bytes)}"])

    def show(self, update: Update) -> None:
        """Show one step of a run."""
        if isinstance(update.event, Started):
            self.started(update.event)
        else:
            self.event(update.event, update.text)

    def started(self, event: Started) -> None:
        """A clip is about to be decoded."""
        self._clip, self._rounds = event, []
        self._heading(event)

    def _heading(self, event: Started) -> None:
        place = f"{event.file}: {seconds(event.duration_s)}, {event.language}, {event.mode}"
        if event.piece is not None:
            place = f"{event.file}, {_name(event)}: {event.start_s or 0.0:.2f} to {event.end_s or 0.0:.2f} s"
        self.say(f"{place}, no speech found" if "no_speech" in event.flags else place)
        for warning in event.warnings:
            self.say(f"warning: {warning}")

    def event(self, event: Event, text: EventText) -> None:
        """Something happened to the clip that was started last."""
        if isinstance(event, Round):
            self._rounds.append(event)
        elif isinstance(event, Finished):
            assert self._clip is not None
            self._done += 1
            self._flags.update(text.flags)
            self._degraded += event.degraded is not None
            self._finished(self._clip, text, summary(self._clip, self._rounds, event, text))
            if self._quiet:
                degraded = None if event.degraded is None else f"degraded: {event.degraded}"
                for warning in filter(None, (degraded, flagged(text.flags))):
                    self.warn(f"{self._clip.file}: {warning}")

    def _finished(self, clip: Started, text: EventText, facts: Sequence[tuple[str, Text]]) -> None:  # noqa: ARG002
        """Show what a clip came to."""
        self.say(f"{_name(clip)}: {'; '.join(f'{label} {words}' for label, words in facts)}")

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        self.close()
        self._steps, self._taken, self._begun = steps, 0, self._clock()
        self.step("")

    def step(self, what: str) -> None:
        """A step is about to be taken: show `12 of 400`, `3%`, `4.10 s`, `about 2 min 11 s left`."""
        elapsed, done, total = self._clock() - self._begun, self._taken, self._steps
        facts = [f"{done:,} of {total:,}", f"{100 * done // max(total, 1)}%", seconds(elapsed)]
        if 0 < done < total:
            facts.append(f"about {seconds(elapsed / done * (total - done))} left")
        self.progress(done, total, facts, what)

    def advance(self) -> None:
        """A step was taken."""
        self._taken += 1
        self.step("")

    def progress(self, done: int, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        """Show how far a command is; `total` is None as long as it is not known, `doing` is the step that follows."""
        now = self._clock()
        if done and not doing and (done == total or now - self._printed_s >= LINE_EVERY_S):
            self._printed_s = now
            self.say(", ".join(facts))

    def say(self, sentence: str | Text, *, good: bool = True) -> None:  # noqa: ARG002 - for displays with signs
        """Show something that is no error; `good`: nor a warning."""
        if not self._quiet:
            print_line(self._console, Text(clean(str(sentence))))

    def warn(self, sentence: str) -> None:
        """Show what is wrong with results that are kept."""
        print_line(self._console, Text(clean(sentence)), Text("warning:", BAD))

    def hint(self, sentence: str) -> None:
        """Show what to do next."""
        print_line(self._console, Text(clean(sentence)), Text("hint:", DIM))

    def listening(self, level_dbfs: float) -> None:
        """Sound of this level came from the microphone."""

    def stopping(self, what: str) -> None:
        """The user wants it to end: show `what` is done first. Called in a signal handler: nothing buffered is used."""
        os.write(sys.stderr.fileno(), f"{what} (Ctrl-C again stops at once)\n".encode())

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording could not be used; the next one may follow."""
        print_error(error, file=file, debug=self._debug, console=self._console)

    def interrupted(self, output: Path | None) -> None:
        """The user stopped it: show what is kept, transcripts in `output` if there is one."""
        kept = "no transcript kept (--output keeps them)" if output is None else f"kept in {output}"
        self.close()
        self._space()
        self.say(f"interrupted: {count(self._done, 'caption')} finished, {kept}", good=False)

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

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""

    def _space(self) -> None:
        """Set what follows apart from what was printed."""


def _name(clip: Started) -> str:
    """The file; of one of its pieces, which."""
    return clip.file if clip.piece is None else f"piece {clip.piece + 1} of {clip.pieces}"
