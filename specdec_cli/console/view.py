"""What a command shows on stderr: clips one after the other, or steps; warnings and errors."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from rich.console import Console, Group, RenderableType
from rich.text import Text

from specdec_cli import interrupts
from specdec_cli.console import clip as parts
from specdec_cli.console.cells import Prose
from specdec_cli.console.live import StatusLine
from specdec_cli.console.plain import console_on, print_error, print_line, warn
from specdec_cli.console.rounds import render_round
from specdec_cli.console.theme import DIM, GOOD, NOTICE, OK, WARN
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count
from specdec_cli.inputs.skipped import Skips
from specdec_cli.text import clean, paragraph
from specdec_cli.times import seconds
from specdec_cli.transcript.records import Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import Update
from specdec_cli.types import Finished, Prefill, Sent, Tell

Form = Literal["live", "rows", "lines", "errors"]

LINE_EVERY_S: Final = 10.0
"""Time between two lines of a log on the progress of a command."""
_LOG_WIDTH: Final = 100  # cells of a row where there is no terminal
_SILENT_DBFS: Final = -75.0  # a microphone that delivers less is muted


class View:
    """A display of clips one after the other, or of steps. A context manager, which gives the terminal back.

    Showing an update, a step or what is loaded ends the command if a signal requested it (see `interrupts.check`).

    Args:
        console: where it is printed.
        form: `rows`: heading, rows of each round and totals of a clip; `live`: the same with the finished caption,
            above a line that shows what is going on, on a terminal that can move its cursor; `lines`: two lines a clip
            and one every few seconds on steps, for logs and pipes; `errors`: errors and warnings alone.
        debug: show tracebacks of errors.
        clock: seconds from any start.
    """

    def __init__(
        self,
        console: Console,
        form: Form,
        *,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.form, self.failures = form, set[str]()  # recordings that failed
        self.skips = list[Skips]()  # of files that were read; shown at the end
        self.status = StatusLine(console, clock, drawn=form == "live")
        self._console, self._debug, self._clock = console, debug, clock
        self._in_rows = form in ("live", "rows")
        self._clip: Started | None = None
        self._rounds: list[Round] = []
        self._described: tuple[object, ...] | None = None
        self._warned: set[str] = set()
        self._printed, self._ending = False, ""
        self._steps, self._taken, self._begun = 0, 0, clock()
        self._logged_s = clock()  # a line on steps

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def loading(self, what: str) -> Iterator[Tell]:
        """Show that `what` is loading, e.g. "edge: mini-edge"; then the time that it took.

        What it yields shows a sentence, and leaves the screen to the bars of a download.
        """
        interrupts.check()
        started = self._clock()
        if self._in_rows:
            self.status.open(f"loading {what}")
        else:
            self.say(f"loading {what} ...")
        try:
            yield self._tell
        finally:
            self.close()
        interrupts.check()
        if self._in_rows:
            self.say(Text.assemble(f"loaded {clean(what)} ", (seconds(self._clock() - started), DIM)))

    def _tell(self, sentence: str) -> None:
        self.close()
        self.say(sentence)

    def show(self, update: Update) -> None:
        """Show an update of a run; the first one has the event `Started`."""
        interrupts.check()
        event = update.event
        if isinstance(event, Started):
            self._clip, self._rounds = event, []
            self._heading(event)
            return
        assert self._clip is not None
        self.status.state = "drafting" if self._clip.mode in ("hybrid", "lossless") else "writing"
        match event:
            case Prefill():
                self._print(parts.prefill_line(event))
            case Sent():
                self.status.state = "waiting for the cloud"
            case Round():
                self._rounds.append(event)
                if self._in_rows:
                    before = "".join(round_.committed_text for round_ in self._rounds[:-1])
                    rows = render_round(event, self._clip, self._console.width, before, update.text.claims_in)
                    self._print(*rows)
                tokens = count(sum(len(round_.committed_ids) for round_ in self._rounds), "token")
                self.status.facts = [tokens, count(len(self._rounds), "round")]
            case Finished():
                self._finished(self._clip, event, update)
        self.status.refresh()

    def _heading(self, clip: Started) -> None:
        """Begin a clip; in rows, with models and settings if they differ from those of the clip before."""
        if not self._in_rows:
            self.say(parts.place(clip))
            self._warn_once(clip)
            return
        self.close()
        self._space()
        self._print(parts.file_line(clip, self._console.width))
        described = (clip.mode, clip.models, clip.prompt, clip.settings)
        if described != self._described:
            self._described = described
            self._print(*parts.heading(clip))
            self._warned.update(clip.warnings)
        self._warn_once(clip)
        self._print(Text())
        self.status.open("encoding the clip")

    def _warn_once(self, clip: Started) -> None:
        for warning in clip.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self.warn(warning)

    def _finished(self, clip: Started, event: Finished, update: Update) -> None:
        """End a clip with its caption, flags, classes and totals."""
        self.close()
        text, facts = update.text, list(parts.summary(clip, self._rounds, event, update.text))
        caption = [("caption", Text(paragraph(text.caption))), ("", Text())] if self.form == "live" else []
        self._print(Text(), *(parts.labelled(label, body) for label, body in (*caption, *facts)))
        if self.form == "lines":
            self.say(f"{parts.name(clip)}: {'; '.join(f'{label} {body}' for label, body in facts)}")
        elif self.form == "errors":
            degraded = [] if event.degraded is None else [f"degraded: {event.degraded}"]
            # a tenth of captions contradict the sound, and the mark behind each shows it
            # what has no speech is listed once, at the end
            faults = parts.flagged(flag for flag in text.flags if flag not in ("contradicts", "no_speech"))
            for warning in (*degraded, *filter(None, [faults])):
                self.warn(f"{clip.file}: {warning}")

    def begin(self, steps: int) -> None:
        """Show that a command begins to take this number of steps."""
        self.close()
        self._steps, self._taken, self._begun = steps, 0, self._clock()
        self.step("")

    def step(self, what: str) -> None:
        """Show `what` as the next step, beside `12 of 400`, `3%`, `4.10 s`, `about 2 min 11 s left`."""
        interrupts.check()
        elapsed, done, total = self._clock() - self._begun, self._taken, self._steps
        facts = [f"{done:,} of {total:,}", f"{100 * done // max(total, 1)}%", seconds(elapsed)]
        if 0 < done < total:
            facts.append(f"about {seconds(elapsed / done * (total - done))} left")
        self.progress(done, total, facts, what)

    def advance(self) -> None:
        """Count a step as taken."""
        self._taken += 1
        self.step("")

    def progress(self, done: float, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        """Show the progress of a command; `total` is None while it is not known, `doing` is the step that follows."""
        now = self._clock()
        if self.form == "live":
            if not self.status.is_open:
                self.status.open(self._ending)
            self.status.bar, self.status.facts = (done, total), [*facts, *filter(None, [clean(doing)])]
        elif done and not doing and (done == total or now - self._logged_s >= LINE_EVERY_S):
            self._logged_s = now
            self.say(", ".join(facts))

    def listening(self, level_dbfs: float) -> None:
        """Show the level of sound from the microphone."""
        if not self.status.is_open:
            self.status.open("listening")
        self.status.facts = [f"{level_dbfs:.0f} dBFS" if level_dbfs > _SILENT_DBFS else "no sound"]

    def stopping(self, what: str) -> None:
        """Show `what` is done before the command ends. It is called beside the command, so it writes unbuffered."""
        self._ending = self.status.state = f"{what} (Ctrl-C again stops at once)"
        if self.form != "live":
            os.write(sys.stderr.fileno(), f"{self._ending}\n".encode())

    def say(self, sentence: str | Text, *, good: bool = True) -> None:
        """Show a sentence; `good`: it is not a warning."""
        line = sentence if isinstance(sentence, Text) else Text(clean(sentence))
        if self._in_rows:
            self._print(Prose(line, Text.assemble(" ", (OK, GOOD) if good else (WARN, NOTICE)), indent=3))
        elif self.form == "lines":
            print_line(self._console, Text(line.plain))

    def warn(self, sentence: str) -> None:
        """Show a warning, in every form."""
        warn(sentence, self._console)

    def tell_skips(self) -> None:
        """Show once what was left out of the files that were read, or changed."""
        for skips in self.skips:
            for sentence in skips.sentences():
                self.warn(sentence)
        self.skips.clear()

    def hint(self, sentence: str) -> None:
        """Show what to do next."""
        print_line(self._console, Text(clean(sentence)), Text("hint:", DIM))

    def failed(self, file: str, error: SpecdecError) -> None:
        """Show why a recording failed; another one may follow."""
        self.failures.add(file)
        if self._clip is not None:
            self.close()
            self._space()
        print_error(error, file=file, debug=self._debug, console=self._console)

    def conclude(self, sentence: str | Text, *, good: bool = True) -> None:
        """Show a sentence at the end, set apart from the rows of clips."""
        self.close()
        if self._clip is not None:
            self._space()
        self.say(sentence, good=good)

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""
        self.status.close()

    def _space(self) -> None:
        """Set what follows apart from what was printed."""
        if self._printed:
            self._print(Text())

    def _print(self, *rows: RenderableType) -> None:
        """Print rows, in forms that have any."""
        if self._in_rows and rows:
            self._printed = True
            self._console.print(Group(*rows))


def choose_view(
    *, quiet: bool = False, no_live: bool = False, json: bool = False, debug: bool = False, steps: bool = False
) -> View:
    """The display for stderr, of clips or of `steps`.

    On a terminal the live one; its rows as ordinary lines with `no_live`, with `debug`, under CI and where the cursor
    cannot be moved (TERM=dumb). Elsewhere two lines a clip, or rows with `no_live`. Errors only if `quiet`, or if
    `json` goes to the terminal that would show the display.
    """
    console, terminal = console_on(stderr=True), sys.stderr.isatty()
    form: Form = "lines"
    if quiet or (json and terminal and sys.stdout.isatty()):
        form = "errors"
    elif terminal and not (console.is_dumb_terminal or no_live or debug or os.environ.get("CI")):
        form = "live"
    elif not steps and (terminal or no_live):
        form = "rows"
    if not terminal and form == "rows":
        console.width = _LOG_WIDTH
    return View(console, form, debug=debug)
