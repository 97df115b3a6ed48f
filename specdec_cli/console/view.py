"""What a display of a run has to offer, and the displays for what is not a terminal: nothing at all, or a few lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.clip import classes, measurements, one_line
from specdec_cli.console.output import print_error
from specdec_cli.console.theme import BAD
from specdec_cli.errors import SpecdecError
from specdec_cli.report.figures import count, seconds
from specdec_cli.types import Event, EventText, Finished, Round, Started, Update

FINISHING: Final = "captioning what was said; Ctrl-C again stops at once"


class View:
    """A display of clips, one after the other, that shows errors, and captions that lack the cloud, and nothing else.

    `debug`: errors come with their traceback.
    """

    shows_caption = False
    """Whether the finished caption is part of the display."""

    def __init__(self, console: Console, *, debug: bool = False) -> None:
        self._console = console
        self._debug = debug
        self._clip: Started | None = None
        self._rounds: list[Round] = []
        self._done = 0
        self._delays: list[float] = []

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:  # noqa: ARG002 - for displays that say it
        """Say that `what` is being loaded, e.g. "edge: mini-edge", until the block is left."""
        yield

    def started(self, event: Started) -> None:
        """A clip is about to be decoded."""
        self._clip, self._rounds = event, []

    def event(self, event: Event, text: EventText) -> None:
        """Something happened to the clip that was started last."""
        if isinstance(event, Round):
            self._rounds.append(event)
        elif isinstance(event, Finished):
            self._done += 1
            self._finished(event, text)

    def _finished(self, event: Finished, text: EventText) -> None:  # noqa: ARG002 - for displays that show it
        """Say why the cloud did not take part in a clip, where it should have."""
        if event.degraded is not None:
            file = f"{clean(self._clip.file)}: " if self._clip else ""
            line = Text.assemble(("warning:", BAD), f" {file}degraded: {clean(event.degraded)}")
            self._console.print(line, soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Something that is no error."""

    def listening(self, level_dbfs: float) -> None:
        """Sound of this level came from the microphone."""

    def delayed(self, delay_s: float) -> None:
        """The caption that was just finished came so long after the end of its utterance."""
        self._delays.append(delay_s)
        self.say(f"caption {seconds(delay_s)} after the end of the utterance")

    def stopping(self) -> None:
        """Somebody wants it to end: say what that means. Called in a signal handler, so nothing buffered is used."""

    def failed(self, file: str, error: SpecdecError) -> None:
        """A clip could not be captioned; the next one may follow."""
        self.close()
        print_error(error, file=file, debug=self._debug, console=self._console)

    def interrupted(self, output: Path | None) -> None:
        """Somebody stopped it: say what is kept, transcripts in `output` if there is one."""

    def finished_all(self, done: int, failed: int) -> None:
        """No more clips: `done` were captioned and `failed` were not."""

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""

    def _interruption(self, output: Path | None) -> str:
        kept = "nothing was captioned yet"
        if self._done:
            kept = f"{count(self._done, 'caption')} finished"
            kept += f" and kept in {output}" if output is not None else ", no transcript kept (--output keeps them)"
        return f"interrupted: {kept}"

    def _delay(self) -> str:
        """In words, how long captions took after their utterances; empty where nobody listened."""
        if not self._delays:
            return ""
        typical, longest = seconds(median(self._delays)), seconds(max(self._delays))
        return f"captions came {typical} after their utterances (median), {longest} at most"


class PlainView(View):
    """One line when a clip starts and one when it is done, for logs and pipes."""

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:
        """Print `what` before it begins."""
        self.say(f"loading {what} ...")
        yield

    def started(self, event: Started) -> None:
        """Print the file and its length."""
        super().started(event)
        found = ", no speech found" if event.no_speech else ""
        self.say(f"{event.file}: {seconds(event.duration_s)}, {event.language}, {event.mode}{found}")
        for warning in event.warnings:
            self.say(f"warning: {warning}")

    def _finished(self, event: Finished, text: EventText) -> None:
        """Print the totals, and the labels if there are any."""
        if self._clip is not None:
            self.say(f"{self._clip.file}: {one_line(self._rounds, event, self._clip.mode)}")
            if text.labels is not None:
                self.say(f"{self._clip.file}: {classes(text, ', ')}")
            for label, words, _ in measurements(self._clip, text):
                self.say(f"{self._clip.file}: {label}: {words}")

    def stopping(self) -> None:
        """Print it."""
        os.write(sys.stderr.fileno(), f"{FINISHING}\n".encode())

    def interrupted(self, output: Path | None) -> None:
        """Say so, and what is kept."""
        self.say(self._interruption(output))

    def finished_all(self, done: int, failed: int) -> None:
        """Say how many there were, if there were several."""
        if done + failed > 1:
            self.say(f"{done} captioned, {failed} failed")
        if delay := self._delay():
            self.say(delay)

    def say(self, sentence: str) -> None:
        """Print it."""
        self._console.print(Text(clean(sentence)), soft_wrap=True, highlight=False)


def show(view: View, update: Update) -> None:
    """Pass one step of a run on to `view`."""
    if isinstance(update.event, Started):
        view.started(update.event)
    else:
        view.event(update.event, update.text)
