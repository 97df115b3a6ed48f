"""The live display: finished rounds scroll up as ordinary lines above a small region that is redrawn.

Only that region (the caption so far and one line of status) is ever redrawn, so the display fits any terminal,
survives being resized and leaves all rounds in the scroll-back. Where nothing can be redrawn, there is no region.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from specdec_cli.console import clip as parts
from specdec_cli.console.cells import PROSE_WIDTH, Prose, clean, wrap
from specdec_cli.console.clip import INDENT, labelled
from specdec_cli.console.plain import console_on
from specdec_cli.console.rounds import flight, render_round
from specdec_cli.console.theme import ASKED, DIM, DOT, GOOD, OK, WARN
from specdec_cli.console.tokens import CaptionTrail
from specdec_cli.console.view import PlainView, View
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, seconds
from specdec_cli.types import Event, EventText, Finished, Prefill, Round, Sent, Started

if TYPE_CHECKING:
    from specdec_cli.models.download import Watch

REFRESHES_PER_SECOND = 8
MAX_CAPTION_LINES = 6
_BAR = 20  # cells, where there is room
LOG_WIDTH = 100
"""Cells of a row where there is no terminal to ask."""
SILENT_DBFS = -75.0
"""A microphone that delivers less is muted."""


class Region:
    """What is redrawn: a block on its way to the cloud, the tail of the caption, and what is going on for how long.

    Attributes:
        state: what is going on, with the time that it takes beside it; empty: facts alone.
        facts: beside it.
        bar: how much of how much is done; of an unknown total None.
        flight, caption: texts above it.
    """

    def __init__(self, console: Console, clock: Callable[[], float], state: str) -> None:
        self._clock = clock
        self._start = clock()
        self._spinner = Spinner("line" if console.options.ascii_only else "dots", style=ASKED)
        self.state = state
        self.facts: list[str] = []
        self.bar: tuple[int, int | None] | None = None
        self.flight = Text()
        self.caption = Text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines for the terminal's present size, fewer than half of its height."""
        width = options.max_width - 1
        if self.flight:
            yield from wrap(self.flight, min(width, PROSE_WIDTH))[: max(console.height // 6, 1)]
        if self.caption:
            lines = wrap(self.caption, min(width, PROSE_WIDTH) - INDENT)
            most = max(min(MAX_CAPTION_LINES, console.height // 3), 1)
            label = "caption" if len(lines) <= most else "caption…"
            yield Text()
            yield from (labelled("" if place else label, line) for place, line in enumerate(lines[-most:]))
            yield Text()
        timed = [clean(self.state), f"{self._clock() - self._start:.1f} s"] if self.state else []
        facts = Text(DOT.join([*timed, *self.facts]), no_wrap=True, overflow="ellipsis")
        status = Table.grid(padding=(0, 1, 0, 0))
        bar = [ProgressBar(self.bar[1], self.bar[0], width=min(_BAR, width // 4))] if self.bar else []
        status.add_row("", self._spinner, *bar, facts)
        yield Constrain(status, width)


class LiveView(View):
    """Heading, one row a round and totals, each printed once, above a region that shows the caption growing.

    Args:
        console: its width is read again before every row.
        redraw: whether there is a region, which needs a terminal that can move its cursor, and the finished caption
            below the rows.
        debug, clock: see `View`.
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
        self._live: Live | None = None
        self._region: Region | None = None
        self._ending = ""
        self._caption = CaptionTrail()
        self._cloud_prefilled = False

    def _open(self, state: str) -> Region:
        self.close()
        region = self._region = Region(self._console, self._clock, state)
        if self.shows_caption:
            self._live = Live(
                region,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                vertical_overflow="crop",
            )
            self._live.start(refresh=True)
        return region

    @contextmanager
    def loading(self, what: str) -> Iterator[Watch]:
        """Show `what` and how far a download is, then print it with the time it took."""
        start, state, outer = self._clock(), f"loading {what}", self._region
        if not self.shows_caption:
            self._print(Prose(Text(f" … {clean(state)}")))
        region = outer or self._open(state)
        before, region.state, region.bar = region.state, state, None
        try:
            yield self._watch
        finally:
            region.state, region.bar, region.facts = before, None, []
            if outer is None:
                self.close()
        self.say(Text.assemble(f"loaded {clean(what)} ", (seconds(self._clock() - start), DIM)))

    def started(self, event: Started) -> None:
        """Print the heading, models and settings only where they differ from the last clip's; open the region."""
        self.close()
        super().started(event)
        self._caption = CaptionTrail()
        self._cloud_prefilled = False
        self._space()
        self._print(parts.file_line(event, self._console.width))
        described = (event.mode, event.edge, event.cloud, event.prompt, event.settings)
        if described != self._described:
            self._described = described
            self._print(*parts.heading(event))
        self._print(Text())
        self._open("encoding the clip")

    def event(self, event: Event, text: EventText) -> None:
        """Print what happened and redraw the region; close it when the clip is done."""
        clip = self._clip
        assert clip is not None
        super().event(event, text)
        match event:
            case Prefill():
                lazy = clip.mode != "cloud" and clip.settings.get("cloud_prefill", "lazy") == "lazy"
                self._cloud_prefilled = event.model == "cloud" and lazy  # in one forward with the first verification
                self._print(parts.prefill_line(event, verified=self._cloud_prefilled))
            case Round():
                self._caption.add(event, text)
                in_prefill = self._cloud_prefilled and event.verify_ms is not None
                self._print(*render_round(event, text, clip, self._console.width, in_prefill=in_prefill))
                self._cloud_prefilled = False
        if self._region is not None:
            self._redraw(self._region, clip, event, text)

    def _redraw(self, region: Region, clip: Started, event: Event, text: EventText) -> None:
        region.state = "drafting" if clip.mode in ("hybrid", "lossless") else "writing"
        region.flight = Text()
        if isinstance(event, Sent):
            region.flight = flight(event, text)
            waits = clip.mode == "cloud" or clip.settings.get("draft_ahead") == "off"
            region.state = "waiting for the cloud" if waits else "drafting ahead"
        elif isinstance(event, Round):
            region.caption = self._caption.text()
            rounds = count(len(self._rounds), "round")
            cloud = f"cloud in {sum(round_.escalated for round_ in self._rounds)} of {rounds}"
            tokens = sum(len(round_.committed_ids) for round_ in self._rounds)
            region.facts = [count(tokens, "token"), cloud if clip.mode == "hybrid" else rounds]
        if self._live is not None:
            self._live.refresh()

    def _finished(self, event: Finished, text: EventText) -> None:
        """Close the region; print the caption and the totals."""
        self.close()
        assert self._clip is not None
        self._caption.caption = text.caption  # which a stop string may have shortened
        lines = [("caption", self._caption.text()), ("", Text())] if self.shows_caption else []
        lines += parts.summary(self._clip, self._rounds, event, text)
        self._print(Text(), *(labelled(label, body) for label, body in lines))
        if not self.shows_caption:
            self._print(Text())

    def say(self, sentence: str | Text, *, good: bool = True) -> None:
        """Print it behind a sign."""
        sign = Text.assemble(" ", (OK, GOOD) if good else (WARN, ASKED))
        self._print(Prose(sentence if isinstance(sentence, Text) else Text(clean(sentence)), sign, indent=3))

    def listening(self, level_dbfs: float) -> None:
        """Show the level while nothing is captioned."""
        region = self._region or self._open("listening")
        region.facts = [f"{level_dbfs:.0f} dBFS" if level_dbfs > SILENT_DBFS else "no sound"]

    def progress(self, done: int, total: int | None, facts: Sequence[str], doing: str = "") -> None:
        """Show a bar with the facts beside it."""
        region = self._region or self._open(self._ending)
        region.bar, region.facts = (done, total), [*facts, *filter(None, [clean(doing)])]

    def stopping(self, what: str) -> None:
        """Show it in the region."""
        self._ending = f"{what} (Ctrl-C again stops at once)"
        if self._region is not None:
            self._region.state = self._ending
        if not self.shows_caption:
            super().stopping(what)

    def failed(self, file: str, error: SpecdecError) -> None:
        """Print the error; close the region of the clip, if it is about one."""
        if self._clip is not None:
            self.close()
            self._space()
        super().failed(file, error)

    def close(self) -> None:
        """Erase the region and show the cursor again."""
        live, self._live, self._region = self._live, None, None
        if live is not None:
            live.stop()

    def _space(self) -> None:
        """An empty line, unless it would be the first."""
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

    On a terminal the live one; its rows as ordinary lines with `no_live`, with `debug` (where log lines and warnings
    stay where they are), under CI and where the cursor cannot be moved (TERM=dumb). Elsewhere two lines a clip, or rows
    with `no_live`. Errors only if `quiet`, or if `json` goes to the terminal that would show the display. Of steps,
    which have no rows, a line every few seconds wherever there is no bar.
    """
    console, terminal = console_on(stderr=True), sys.stderr.isatty()
    named = os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown") or sys.platform == "win32"
    redraw = terminal and named and not (no_live or debug or os.environ.get("CI"))
    if quiet or (json and terminal and sys.stdout.isatty()):
        return View(console, debug=debug)
    if not redraw and (steps or not (terminal or no_live)):
        return PlainView(console, debug=debug)
    if not terminal:
        console.width = LOG_WIDTH
    return LiveView(console, redraw=redraw, debug=debug)
