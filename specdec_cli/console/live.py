"""The live display: finished rounds scroll up as ordinary lines above a small region that is redrawn.

Only that region (the caption so far and one line of status) is ever redrawn, so the display fits any terminal,
survives being resized and leaves the whole table in the scroll-back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from specdec_cli.console.cells import clean, fit, hanging
from specdec_cli.console.figures import count
from specdec_cli.console.heading import INDENT
from specdec_cli.console.lines import PROSE_WIDTH, LinesView
from specdec_cli.console.rounds import render_flight
from specdec_cli.console.theme import ASKED, DIM, Signs
from specdec_cli.errors import SpecdecError
from specdec_cli.types import Event, EventText, Finished, Round, Sent, Started

REFRESHES_PER_SECOND = 8
MAX_CAPTION_LINES = 6


class Region:
    """What is redrawn: the tail of the caption, and a line that says what is going on and for how long.

    Above them stands the row of a block that is on its way to the cloud, where there is one.

    Args:
        signs: characters to draw with.
        clock: seconds from any start.
        state: what is going on.
    """

    def __init__(self, signs: Signs, clock: Callable[[], float], state: str) -> None:
        self._signs = signs
        self._clock = clock
        self._start = clock()
        self.state = state
        self.facts: list[str] = []
        self.flight: list[Text] = []
        self.caption = Text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines for the terminal's present size, fewer than half of its height."""
        width = min(options.max_width - 1, PROSE_WIDTH)
        lines = self._caption_lines(width, max(min(MAX_CAPTION_LINES, console.height // 3), 1)) if self.caption else []
        flight = self.flight[: max(console.height // 6, 1)]
        yield Text("\n").join([*flight, *lines, self._status(options.max_width - 1)])

    def _caption_lines(self, width: int, most: int) -> list[Text]:
        lines = hanging(Text.assemble(" ", ("caption", DIM)), self.caption, INDENT, width)
        if len(lines) > most:
            lines = lines[-most:]
            mark = self._signs.ellipsis[: INDENT - 8].rjust(INDENT - 8)
            lines[0] = Text.assemble((f" caption{mark}", DIM), lines[0][INDENT:])
        return [Text(), *lines, Text()]

    def _status(self, width: int) -> Text:
        elapsed = self._clock() - self._start
        frame = self._signs.spinner[int(elapsed * REFRESHES_PER_SECOND) % len(self._signs.spinner)]
        text = clean(self.state)
        for fact in [f"{elapsed:.1f} s", *self.facts]:
            longer = f"{text} {self._signs.dot} {fact}"
            if len(longer) + 3 > width:
                break
            text = longer
        return Text.assemble(" ", (frame, ASKED), " ", fit(text, width - 3, self._signs.ellipsis))


class LiveView(LinesView):
    """`LinesView` above a region that shows the caption growing.

    Args:
        console: a terminal that can move its cursor.
        debug: whether errors come with their traceback.
        clock: seconds from any start.
    """

    def __init__(self, console: Console, *, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, with_caption=True, debug=debug, clock=clock)
        self._live: Live | None = None
        self._region: Region | None = None

    def _open(self, state: str) -> Region:
        self.close()
        self._region = Region(self._signs, self._clock, state)
        self._live = Live(
            self._region,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        )
        self._live.start(refresh=True)
        return self._region

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:
        """Show `what` with a spinner, then print it with the time it took."""
        start = self._clock()
        outer = self._region
        region = outer or self._open(f"loading {what}")
        before, region.state = region.state, f"loading {what}"
        try:
            yield
        finally:
            region.state = before
            if outer is None:
                self.close()
        self._loaded(what, self._clock() - start)

    def started(self, event: Started) -> None:
        """Print the heading and open the region."""
        self.close()
        super().started(event)
        self._open("encoding the clip")

    def event(self, event: Event, text: EventText) -> None:
        """Print what happened and redraw the region; close it when the clip is done."""
        if isinstance(event, Finished):
            self.close()
        super().event(event, text)
        if self._region is None or self._clip is None or isinstance(event, Finished):
            return
        self._region.state = "drafting" if self._clip.mode in ("hybrid", "lossless") else "writing"
        self._region.flight = []
        if isinstance(event, Sent):
            layout = self._layout_of(self._clip, len(event.draft_ids))
            self._region.flight = render_flight(event, text, layout, signs=self._signs)
            waits = self._clip.mode == "cloud" or self._clip.settings.get("draft_ahead") == "off"
            self._region.state = "waiting for the cloud" if waits else "drafting ahead"
        elif isinstance(event, Round):
            self._region.caption = self._caption.text()
            rounds = count(self._tally.rounds, "round")
            cloud = f"cloud in {self._tally.escalated} of {rounds}"
            self._region.facts = [count(self._tally.tokens, "token"), cloud if self._clip.mode == "hybrid" else rounds]
        if self._live is not None:
            self._live.refresh()

    def failed(self, file: str, error: SpecdecError) -> None:
        """Close the region and print the error."""
        self.close()
        super().failed(file, error)

    def close(self) -> None:
        """Erase the region and show the cursor again."""
        live, self._live, self._region = self._live, None, None
        if live is not None:
            live.stop()
