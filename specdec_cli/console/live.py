"""The one line of a display that is redrawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from specdec_cli.console.theme import DOT, NOTICE
from specdec_cli.text import clean

_REFRESHES_PER_SECOND: Final = 8
_BAR: Final = 20  # cells, where there is room


class StatusLine:
    """One line below all that was printed: the current action and its time, a bar, and facts.

    Nothing else is ever redrawn, so a display fits any terminal, survives being resized and leaves all it printed in
    the scroll-back. With `drawn` False nothing is drawn at all.
    """

    def __init__(self, console: Console, clock: Callable[[], float], *, drawn: bool) -> None:
        self._console, self._clock, self._drawn = console, clock, drawn
        self._live: Live | None = None
        self._spinner = Spinner("dots", style=NOTICE)
        self._since = 0.0
        self.state = ""
        self.facts: Sequence[str] = ()
        self.bar: tuple[float, int | None] | None = None  # how much of how much is done

    def open(self, state: str) -> None:
        """Show `state` as the current action from now on."""
        self.close()
        self.state, self._since, self.facts, self.bar = state, self._clock(), (), None
        if self._drawn:
            self._live = Live(
                get_renderable=self.render,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start(refresh=True)

    @property
    def is_open(self) -> bool:
        """Whether it is on the screen."""
        return self._live is not None

    def refresh(self) -> None:
        """Draw it now."""
        if self._live is not None:
            self._live.refresh()

    def render(self) -> RenderableType:
        """The line, in the terminal's present width."""
        width = self._console.width - 1
        timed = [clean(self.state), f"{self._clock() - self._since:.1f} s"] if self.state else []
        facts = Text(DOT.join([*timed, *self.facts]), no_wrap=True, overflow="ellipsis")
        line = Table.grid(padding=(0, 1, 0, 0))
        bar = [ProgressBar(self.bar[1], self.bar[0], width=min(_BAR, width // 4))] if self.bar else []
        line.add_row("", self._spinner, *bar, facts)
        return Constrain(line, width)

    def close(self) -> None:
        """Give the terminal back as it was. Safe to call at any time, also twice."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
