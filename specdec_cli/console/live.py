"""The live display: finished rounds scroll up as ordinary lines above one line of status that is redrawn.

Only that line is ever redrawn, so the display fits any terminal, survives being resized and leaves all rounds in the
scroll-back. Where nothing can be redrawn, there is no such line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from specdec_cli.console import clip as parts
from specdec_cli.console.cells import Prose, clean, paragraph
from specdec_cli.console.clip import labelled
from specdec_cli.console.plain import console_on
from specdec_cli.console.rounds import render_round
from specdec_cli.console.theme import ASKED, DIM, DOT, GOOD, OK, WARN
from specdec_cli.console.view import View
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, seconds
from specdec_cli.transcript.records import Started
from specdec_cli.types import Event, EventText, Prefill, Round, Sent

if TYPE_CHECKING:
    from specdec_cli.models.download import Watch

_REFRESHES_PER_SECOND: Final = 8
_BAR: Final = 20  # cells, where there is room
_LOG_WIDTH: Final = 100  # cells of a row where there is no terminal to ask
_SILENT_DBFS: Final = -75.0  # a microphone that delivers less is muted


class LiveView(View):
    """Heading, rows of each round and totals, each printed once, above a line that shows what is going on.

    `redraw`: whether there is such a line, which needs a terminal that can move its cursor, and the finished caption
    below the rows.
    """

    def __init__(
        self,
        console: Console,
        *,
        redraw: bool = True,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, debug=debug, clock=clock)
        self.shows_caption = redraw
        self._described: tuple[object, ...] | None = None
        self._printed = False
        self._ending = ""
        self._live: Live | None = None
        self._spinner = Spinner("dots", style=ASKED)
        self._state, self._since = "", 0.0  # what is going on, and since when
        self._facts: Sequence[str] = ()
        self._bar: tuple[int, int | None] | None = None  # how much of how much is done

    def _open(self, state: str) -> None:
        self.close()
        self._state, self._since, self._facts, self._bar = state, self._clock(), (), None
        if self.shows_caption:
            self._live = Live(
                get_renderable=self.region,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start(refresh=True)

    def region(self) -> RenderableType:
        """What is going on and for how long, a bar, and facts, on one line of the terminal's present size."""
        width = self._console.width - 1
        timed = [clean(self._state), f"{self._clock() - self._since:.1f} s"] if self._state else []
        facts = Text(DOT.join([*timed, *self._facts]), no_wrap=True, overflow="ellipsis")
        line = Table.grid(padding=(0, 1, 0, 0))
        bar = [ProgressBar(self._bar[1], self._bar[0], width=min(_BAR, width // 4))] if self._bar else []
        line.add_row("", self._spinner, *bar, facts)
        return Constrain(line, width)

    @contextmanager
    def loading(self, what: str) -> Iterator[Watch]:
        """Show `what` and how far a download is, then print it with the time it took."""
        start = self._clock()
        self._open(f"loading {what}")
        try:
            yield self._watch
        finally:
            self.close()
        self.say(Text.assemble(f"loaded {clean(what)} ", (seconds(self._clock() - start), DIM)))

    def _heading(self, event: Started) -> None:
        """Models and settings only where they differ from the last clip's."""
        self.close()
        self._space()
        self._print(parts.file_line(event, self._console.width))
        described = (event.mode, event.models, event.prompt, event.settings)
        if described != self._described:
            self._described = described
            self._print(*parts.heading(event))
        self._print(Text())
        self._open("encoding the clip")

    def event(self, event: Event, text: EventText) -> None:
        clip = self._clip
        assert clip is not None
        super().event(event, text)
        self._state = "drafting" if clip.mode in ("hybrid", "lossless") else "writing"
        match event:
            case Prefill():
                self._print(parts.prefill_line(event))
            case Sent():
                self._state = "waiting for the cloud"
            case Round():
                self._print(*render_round(event, clip, self._console.width))
                tokens = count(sum(len(round_.committed_ids) for round_ in self._rounds), "token")
                self._facts = [tokens, count(len(self._rounds), "round")]
        if self._live is not None:
            self._live.refresh()

    def _finished(self, clip: Started, text: EventText, facts: Sequence[tuple[str, Text]]) -> None:  # noqa: ARG002
        self.close()
        caption = [("caption", Text(paragraph(text.caption))), ("", Text())]
        lines = [*(caption if self.shows_caption else ()), *facts]
        self._print(Text(), *(labelled(label, body) for label, body in lines))

    def say(self, sentence: str | Text, *, good: bool = True) -> None:
        sign = Text.assemble(" ", (OK, GOOD) if good else (WARN, ASKED))
        self._print(Prose(sentence if isinstance(sentence, Text) else Text(clean(sentence)), sign, indent=3))

    def listening(self, level_dbfs: float) -> None:
        if self._live is None:
            self._open("listening")
        self._facts = [f"{level_dbfs:.0f} dBFS" if level_dbfs > _SILENT_DBFS else "no sound"]

    def progress(self, done: int, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        if self._live is None:
            self._open(self._ending)
        self._bar, self._facts = (done, total), [*facts, *filter(None, [clean(doing)])]

    def stopping(self, what: str) -> None:
        self._ending = self._state = f"{what} (Ctrl-C again stops at once)"
        if not self.shows_caption:
            super().stopping(what)

    def failed(self, file: str, error: SpecdecError) -> None:
        if self._clip is not None:
            self.close()
            self._space()
        super().failed(file, error)

    def close(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _space(self) -> None:
        if self._printed:
            self._print(Text())

    def _print(self, *lines: RenderableType) -> None:
        if lines:
            self._printed = True
            self._console.print(Group(*lines))


def choose_view(
    *, quiet: bool = False, no_live: bool = False, json: bool = False, debug: bool = False, steps: bool = False
) -> View:
    """The display for stderr, of clips or of `steps`.

    On a terminal the live one; its rows as ordinary lines with `no_live`, with `debug`, under CI and where the cursor
    cannot be moved (TERM=dumb). Elsewhere two lines a clip, or rows with `no_live`. Errors only if `quiet`, or if
    `json` goes to the terminal that would show the display.
    """
    console, terminal = console_on(stderr=True), sys.stderr.isatty()
    redraw = terminal and not (console.is_dumb_terminal or no_live or debug or os.environ.get("CI"))
    if quiet or (json and terminal and sys.stdout.isatty()):
        return View(console, quiet=True, debug=debug)
    if not redraw and (steps or not (terminal or no_live)):
        return View(console, debug=debug)
    if not terminal:
        console.width = _LOG_WIDTH
    return LiveView(console, redraw=redraw, debug=debug)
