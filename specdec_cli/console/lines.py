"""The display as ordinary lines, printed as things happen and never redrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from specdec_cli.console.caption import CaptionTrail
from specdec_cli.console.cells import clean, hanging
from specdec_cli.console.entropy import figure_of, threshold_of
from specdec_cli.console.errors import print_error
from specdec_cli.console.figures import seconds
from specdec_cli.console.heading import (
    INDENT,
    file_line,
    legend_lines,
    model_lines,
    prefill_line,
)
from specdec_cli.console.rounds import Layout, layout_for, render_round
from specdec_cli.console.summary import Tally, classes, summary
from specdec_cli.console.theme import BAD, DIM, GOOD, signs_for
from specdec_cli.errors import SpecdecError
from specdec_cli.types import Event, EventText, Finished, Prefill, Round, Started

PROSE_WIDTH = 100


class LinesView:
    """Heading, one row a round, totals: each printed once.

    Args:
        console: where to print; its width is read again before every row.
        with_caption: whether the finished caption belongs to the display.
        debug: whether errors come with their traceback.
        clock: seconds from any start, for the time that loading takes.
    """

    def __init__(
        self,
        console: Console,
        *,
        with_caption: bool = False,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._signs = signs_for(console)
        self._with_caption = with_caption
        self._debug = debug
        self._clock = clock
        self._clip: Started | None = None
        self._described: tuple[object, ...] | None = None
        self._printed = False
        self._begin()

    def _begin(self) -> None:
        self._tally = Tally()
        self._caption = CaptionTrail()
        self._layout: Layout | None = None
        self._link = False

    @property
    def shows_caption(self) -> bool:
        """Whether the finished caption is part of the display."""
        return self._with_caption

    @contextmanager
    def loading(self, what: str) -> Iterator[None]:
        """Print `what`, and again with the time it took once it is done."""
        start = self._clock()
        self._print(*hanging(Text(), Text(f" {self._signs.ellipsis} loading {clean(what)}"), 0, self._width))
        yield
        self._loaded(what, self._clock() - start)

    def _loaded(self, what: str, elapsed_s: float) -> None:
        line = Text.assemble(" ", (self._signs.ok, GOOD), f" loaded {clean(what)} ", (seconds(elapsed_s), DIM))
        self._print(*hanging(Text(), line, 0, self._width))

    def started(self, event: Started) -> None:
        """Print the heading; models and settings only where they differ from the last clip's."""
        self._begin()
        self._clip = event
        self._space()
        self._print(file_line(event, self._width, self._signs))
        described = (event.mode, event.edge, event.cloud, event.prompt, event.settings)
        if described != self._described:
            self._described = described
            self._print(*model_lines(event, self._width, self._signs), *legend_lines(event, self._width, self._signs))
        self._print(Text())

    def event(self, event: Event, text: EventText) -> None:
        """Print what happened."""
        if self._clip is None:
            raise RuntimeError("an event came before any clip was started")
        match event:
            case Prefill():
                self._print(prefill_line(event, self._width, self._signs))
            case Round():
                self._tally.add(event)
                self._caption.add(event, text)
                self._print(*self._round(self._clip, event, text))
            case Finished():
                self._caption.finish(text.caption)
                self._print(Text(), *self._finished(self._clip, event, text.labels))

    def _round(self, clip: Started, event: Round, text: EventText) -> list[Text]:
        self._link = self._link or event.network_ms is not None
        figure = figure_of(clip.settings)
        layout = self._layout_of(clip, len(event.draft_ids))
        heading = []
        if layout != self._layout:
            self._layout = layout
            heading = [layout.heading()]
        threshold = threshold_of(clip.settings)
        return heading + render_round(
            event, text, layout, mode=clip.mode, threshold=threshold, signs=self._signs, figure=figure
        )

    def _layout_of(self, clip: Started, drafted: int) -> Layout:
        """The layout for the terminal's present width; `drafted`: tokens of a block, if the settings do not say."""
        k = clip.settings.get("k")
        k = k if isinstance(k, int) else drafted
        return layout_for(self._width, k, clip.mode, link=self._link, figure=figure_of(clip.settings))

    def _finished(self, clip: Started, event: Finished, labels: Mapping[str, str | None] | None) -> list[Text]:
        width = min(self._width - 1, PROSE_WIDTH)
        lines = []
        if self._with_caption:
            lines += hanging(Text.assemble(" ", ("caption", DIM)), self._caption.text(), INDENT, width)
            lines.append(Text())
        totals = summary(self._tally, event, clip.mode, self._signs)
        if labels is not None:
            totals.insert(0, ("labels", Text(classes(labels, f" {self._signs.dot} "))))
        for label, body in totals:
            lines += hanging(Text.assemble(" ", (label, DIM)), body, INDENT, width)
        return lines if self._with_caption else [*lines, Text()]

    def failed(self, file: str, error: SpecdecError) -> None:
        """Print the error and what to do about it."""
        self._space()
        print_error(error, file=file, debug=self._debug, console=self._console)

    def finished_all(self, done: int, failed: int) -> None:
        """Say how many there were, if there were several."""
        if done + failed < 2:
            return
        self._space()
        line = Text.assemble(" ", (self._signs.ok, GOOD), f" {done} captioned")
        if failed:
            line.append_text(Text.assemble("  ", (self._signs.fail, BAD), f" {failed} failed"))
        self._print(line)

    def close(self) -> None:
        """Nothing to give back."""

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
