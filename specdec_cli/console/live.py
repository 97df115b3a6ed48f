"""The live display: finished rounds scroll up as ordinary lines above a small region that is redrawn.

Only that region (the caption so far and one line of status) is ever redrawn, so the display fits any terminal,
survives being resized and leaves the whole table in the scroll-back. Where nothing can be redrawn, there is no region.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.text import Text

from specdec_cli.console import clip as parts
from specdec_cli.console.cells import clean, fit, hanging, wrap
from specdec_cli.console.clip import INDENT, labelled
from specdec_cli.console.plain import console_on
from specdec_cli.console.rounds import Layout, layout_for, render_deferred, render_flight, render_round
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, Signs, signs_for
from specdec_cli.console.tokens import CaptionTrail
from specdec_cli.console.view import FINISHING, PlainView, View
from specdec_cli.errors import SpecdecError
from specdec_cli.format import count, seconds, volume
from specdec_cli.types import Event, EventText, Finished, Prefill, Round, Sent, Started

if TYPE_CHECKING:
    from specdec_cli.models.download import Download, Watch

REFRESHES_PER_SECOND = 8
MAX_CAPTION_LINES = 6
PROSE_WIDTH = 100
LOG_WIDTH = 100
"""Cells of a row where there is no terminal to ask."""
SILENT_DBFS = -75.0
"""A microphone that delivers less is muted."""


class Region:
    """What is redrawn: a block on its way to the cloud, the tail of the caption, and what is going on for how long."""

    def __init__(self, signs: Signs, clock: Callable[[], float], state: str) -> None:
        self._signs = signs
        self._clock = clock
        self._start = clock()
        self._spinner = Spinner(signs.spinner, style=ASKED)
        self.state = state
        self.facts: list[str] = []
        self.flight: list[Text] = []
        self.caption = Text()
        self.download: tuple[int, int] | None = None  # bytes so far, of all

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines for the terminal's present size, fewer than half of its height."""
        width = min(options.max_width - 1, PROSE_WIDTH)
        lines = self._caption_lines(width, max(min(MAX_CAPTION_LINES, console.height // 3), 1)) if self.caption else []
        flight = self.flight[: max(console.height // 6, 1)]
        if self.download is not None:
            done, total = self.download
            yield ProgressBar(total=total, completed=done, width=width)
            yield Text()
        yield Text("\n").join([*flight, *lines, self._status(console, options.max_width - 1)])

    def _caption_lines(self, width: int, most: int) -> list[Text]:
        lines = labelled("caption", self.caption, width)
        if len(lines) > most:
            lines = lines[-most:]
            mark = self._signs.ellipsis[: INDENT - 8].rjust(INDENT - 8)
            lines[0] = Text.assemble((f" caption{mark}", DIM), lines[0][INDENT:])
        return [Text(), *lines, Text()]

    def _status(self, console: Console, width: int) -> Text:
        text = clean(self.state)
        for fact in [f"{self._clock() - self._start:.1f} s", *self.facts]:
            longer = f"{text} {self._signs.dot} {fact}"
            if len(longer) + 3 > width:
                break
            text = longer
        frame = self._spinner.render(console.get_time())
        assert isinstance(frame, Text)
        return Text.assemble(" ", frame, " ", fit(text, width - 3, self._signs.ellipsis))


class LiveView(View):
    """Heading, one row a round and totals, each printed once, above a region that shows the caption growing.

    Args:
        console: its width is read again before every row.
        redraw: whether there is a region, which needs a terminal that can move its cursor.
        with_caption: whether the finished caption belongs to the display.
        debug: whether errors come with their traceback.
        clock: seconds from any start.
    """

    def __init__(
        self,
        console: Console,
        *,
        redraw: bool = True,
        with_caption: bool = True,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, debug=debug)
        self.redraws = redraw
        self.shows_caption = with_caption
        self._signs = signs_for(console)
        self._clock = clock
        self._described: tuple[object, ...] | None = None
        self._printed = False
        self._live: Live | None = None
        self._region: Region | None = None
        self._caption = CaptionTrail()
        self._layout: Layout | None = None
        self._link = self._cloud_prefilled = False

    def _open(self, state: str) -> Region:
        self.close()
        region = Region(self._signs, self._clock, state)
        if self.redraws:
            self._region = region
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
        if not self.redraws:
            self._print(*wrap(Text(f" {self._signs.ellipsis} {clean(state)}"), self._width))
        region = outer or self._open(state)
        before, region.state = region.state, state
        begun = 0.0

        def watch(download: Download, done: int) -> None:
            nonlocal begun
            if done == 0:
                begun = self._clock()
                self._print(*wrap(Text(f" {clean(str(download))}", style=DIM), self._width))
            region.download = (done, download.bytes)
            rate = done / max(self._clock() - begun, 1e-3)
            region.facts = [f"{volume(done)} of {volume(download.bytes)}", f"{volume(rate)}/s"]

        try:
            yield watch
        finally:
            region.state, region.download, region.facts = before, None, []
            if outer is None:
                self.close()
        took = (seconds(self._clock() - start), DIM)
        self._print(*wrap(Text.assemble(" ", self._ok, f" loaded {clean(what)} ", took), self._width))

    def started(self, event: Started) -> None:
        """Print the heading, models and settings only where they differ from the last clip's; open the region."""
        self.close()
        super().started(event)
        self._caption, self._layout = CaptionTrail(), None
        self._link = self._cloud_prefilled = False
        self._space()
        self._print(parts.file_line(event, self._width, self._signs))
        described = (event.mode, event.edge, event.cloud, event.prompt, event.settings)
        if described != self._described:
            self._described = described
            for lines in (parts.model_lines, parts.legend_lines):
                self._print(*lines(event, self._width, self._signs))
        self._print(Text())
        self._open("encoding the clip")

    def event(self, event: Event, text: EventText) -> None:
        """Print what happened and redraw the region; close it when the clip is done."""
        clip = self._clip
        if clip is None:
            raise RuntimeError("an event came before any clip was started")
        super().event(event, text)
        match event:
            case Prefill():
                lazy = clip.mode != "cloud" and clip.settings.get("cloud_prefill", "lazy") == "lazy"
                self._cloud_prefilled = event.model == "cloud" and lazy  # in one forward with the first verification
                self._print(*parts.prefill_lines(event, self._width, self._signs, verified=self._cloud_prefilled))
            case Round():
                self._caption.add(event, text)
                self._print(*self._round(clip, event, text))
                self._cloud_prefilled = False
        if self._region is not None:
            self._redraw(self._region, clip, event, text)

    def _redraw(self, region: Region, clip: Started, event: Event, text: EventText) -> None:
        region.state = "drafting" if clip.mode in ("hybrid", "lossless") else "writing"
        region.flight = []
        if isinstance(event, Sent):
            layout = self._layout_of(clip, len(event.draft_ids))
            region.flight = render_flight(event, text, layout, self._signs)
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

    def _round(self, clip: Started, event: Round, text: EventText) -> list[Text]:
        self._link = self._link or event.network_ms is not None
        in_prefill = self._cloud_prefilled and event.verify_ms is not None
        if clip.settings.get("defer") and clip.mode in ("hybrid", "lossless"):
            return render_deferred(event, text, self._width, clip, self._signs, in_prefill=in_prefill)
        layout = self._layout_of(clip, len(event.draft_ids))
        heading = [] if layout == self._layout else layout.heading()
        self._layout = layout
        return heading + render_round(event, text, layout, clip, self._signs, in_prefill=in_prefill)

    def _layout_of(self, clip: Started, drafted: int) -> Layout:
        """The layout for the terminal's present width; `drafted`: tokens of a block, if the settings do not say."""
        k = clip.settings.get("k")
        return layout_for(self._width, k if isinstance(k, int) else drafted, clip.mode, link=self._link)

    def _finished(self, event: Finished, text: EventText) -> None:
        """Close the region; print the caption and the totals."""
        self.close()
        assert self._clip is not None
        self._caption.caption = text.caption  # which a stop string may have shortened
        totals = parts.summary(self._rounds, event, self._clip.mode, self._signs)
        if text.labels is not None:
            totals.insert(0, ("labels", Text(parts.classes(text, f" {self._signs.dot} "))))
        found = [(label, Text(clean(words), style)) for label, words, style in parts.measurements(self._clip, text)]
        totals[int(text.labels is not None) : 0] = found
        if text.flags:
            totals.insert(0, ("flags", Text(parts.flagged(text.flags), BAD)))
        if self.shows_caption:
            totals = [("caption", self._caption.text()), ("", Text()), *totals]
        width = min(self._width - 1, PROSE_WIDTH)
        lines = [line for label, body in totals for line in labelled(label, body, width)]
        self._print(Text(), *lines, *([] if self.shows_caption else [Text()]))

    def say(self, sentence: str) -> None:
        """Print it."""
        self._print(*wrap(Text.assemble(" ", self._ok, f" {clean(sentence)}"), self._width))

    def listening(self, level_dbfs: float) -> None:
        """Show the level while nothing is captioned."""
        if self.redraws:
            region = self._region or self._open("listening")
            region.facts = [f"{level_dbfs:.0f} dBFS" if level_dbfs > SILENT_DBFS else "no sound"]

    def stopping(self) -> None:
        """Show it in the region."""
        if self._region is not None:
            self._region.state = FINISHING

    def failed(self, file: str, error: SpecdecError) -> None:
        """Close the region and print the error."""
        self.close()
        self._space()
        super().failed(file, error)

    def interrupted(self, output: Path | None) -> None:
        """Say so, and what is kept."""
        self.close()
        self._space()
        sign, sentence = Text.assemble(" ", (self._signs.warn, ASKED)), self._interruption(output)
        self._print(*hanging(sign, Text(clean(sentence)), 3, self._width))

    def finished_all(self, done: int, failed: int, facts: Sequence[str] = ()) -> None:
        """Say how many there were, if there were several."""
        if done + failed > 1 or facts:
            self._space()
            failures = ("  ", (self._signs.fail, BAD), f" {failed} failed") if failed else ()
            flags = ("  ", (self._signs.warn, ASKED), f" {parts.count_flags(self._flags)}") if self._flags else ()
            alone = f" {self._degraded} by the edge alone: the cloud failed"
            degraded = ("  ", (self._signs.warn, ASKED), alone) if self._degraded else ()
            total = Text.assemble(" ", self._ok if done else "", f" {done} captioned", *failures, *flags, *degraded)
            self._print(*wrap(total, self._width))
            self._print(*(line for fact in facts for line in hanging(Text("  "), Text(clean(fact)), 3, self._width)))
        if delay := self._delay():
            self._print(*wrap(Text(f"   {delay}"), self._width))

    def close(self) -> None:
        """Erase the region and show the cursor again."""
        live, self._live, self._region = self._live, None, None
        if live is not None:
            live.stop()

    @property
    def _ok(self) -> tuple[str, str]:
        return self._signs.ok, GOOD

    @property
    def _width(self) -> int:
        return self._console.width

    def _space(self) -> None:
        """An empty line, unless it would be the first."""
        if self._printed:
            self._print(Text())

    def _print(self, *lines: Text) -> None:
        if lines:
            self._printed = True
            self._console.print(Text("\n").join(lines), no_wrap=True, overflow="crop", crop=True, highlight=False)


def choose_view(*, quiet: bool = False, no_live: bool = False, json: bool = False, debug: bool = False) -> View:
    """The display for stderr.

    On a terminal the live one; its rows as ordinary lines with `no_live`, with `debug` (where log lines and warnings
    stay where they are), under CI and where the cursor cannot be moved (TERM=dumb). Elsewhere two lines a clip, or rows
    with `no_live`. Errors only if `quiet`, or if `json` goes to the terminal that would show the display.
    """
    console, terminal = console_on(stderr=True), sys.stderr.isatty()
    if quiet or (json and terminal and sys.stdout.isatty()):
        return View(console, debug=debug)
    if not terminal and not no_live:
        return PlainView(console, debug=debug)
    if not terminal:
        console.width = LOG_WIDTH
    redraw = not no_live and can_redraw(debug=debug)
    return LiveView(console, redraw=redraw, with_caption=redraw, debug=debug)


def can_redraw(*, debug: bool = False) -> bool:
    """Whether stderr is a terminal whose cursor can be moved, as far as its name tells, and may be moved."""
    named = os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown") or sys.platform == "win32"
    return sys.stderr.isatty() and named and not debug and not os.environ.get("CI")
