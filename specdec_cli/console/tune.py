"""A tuning for a person to read, on stdout: what it comes to, and the frontier as a table with bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, fit, hanging, padded
from specdec_cli.console.figures import count
from specdec_cli.console.tables import stdout_console
from specdec_cli.console.theme import ASKED, DIM, GOOD, STRONG, signs_for

if TYPE_CHECKING:
    from specdec_cli.metrics import Interval
    from specdec_cli.tune.frontier import FrontierPoint
    from specdec_cli.tune.result import Tuning

PIPED_WIDTH: Final = 120
PROSE_WIDTH: Final = 100
_BAR: Final = 24  # cells of a gap that is closed
_WITH_BAR: Final = 96  # cells from which there is room for it
_LABEL: Final = 34
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions (chrF)",
}


def print_tuning(tuning: Tuning, *, console: Console | None = None) -> None:
    """Print a tuning.

    Args:
        tuning: what was found.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    width = console.width if console.is_terminal else PIPED_WIDTH
    for line in _Page(tuning, width, console).lines():
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


class _Page:
    def __init__(self, tuning: Tuning, width: int, console: Console) -> None:
        self._tuning = tuning
        self._width = width
        self._signs = signs_for(console)

    def lines(self) -> Iterator[Text]:
        """All of it."""
        found = self._tuning
        facts = [count(found.clips, "clip"), f"half for choosing, {found.confirmed_on} for runs, by {found.split_by}"]
        yield from self._prose(Text(f" {self._signs.dot} ".join(facts), DIM), 0)
        yield from self._prose(Text(self._gap()), 2)
        for sentence in (*self._advice(), *map(Text, found.notes)):
            yield from self._prose(sentence, 2)
        yield Text()
        yield from self._frontier()

    def _gap(self) -> str:
        found = self._tuning
        return (
            f"Measured against {_MEASURES[found.measure]}: edge {_percent(found.edge_quality)}, "
            f"cloud {_percent(found.cloud_quality)}; the cloud is better by {100 * found.gap.value:.1f} points"
            f"{_ends(found.gap, '.1f')}."
        )

    def _advice(self) -> Iterator[Text]:
        found = self._tuning
        best = found.recommended
        if best is None:
            yield Text(found.reason or "", ASKED)
            return
        sentence = (
            f"Recommended: {best.label}. It escalates {_percent(best.escalation_rate)} of the blocks "
            f"({best.asks_per_clip:.1f} a clip)"
        )
        if best.gap_closed is not None:
            sentence += f" and closes {_share(best.gap_closed)} of the gap"
        yield Text(f"{sentence}. It escalates least within one standard error of the best within the budget.", GOOD)
        if found.output:
            yield Text(f"Use it: --gate {clean(found.output)}")

    def _frontier(self) -> Iterator[Text]:
        """The settings that were run, gate by gate."""
        head = Text(" setting".ljust(_LABEL) + "escalated calls a clip  quality  gap closed", DIM)
        yield head
        points = self._tuning.confirmed
        for gate in dict.fromkeys(point.gate for point in points):
            for point in points:
                if point.gate == gate:
                    yield self._row(point)
        note = "run on clips that no setting was chosen on; random escalates a fixed share of blocks"
        yield from self._prose(Text(note, DIM), 1)

    def _row(self, point: FrontierPoint) -> Text:
        chosen = self._tuning.recommended is not None and point.label == self._tuning.recommended.label
        label = fit(clean(point.label), _LABEL - 3, self._signs.ellipsis)
        line = Text.assemble((self._signs.ok if chosen else " ", GOOD), (label, STRONG if chosen else ""))
        line = padded(line, _LABEL)
        for text, cells in (
            (_percent(point.escalation_rate), 9),
            (f"{point.asks_per_clip:.2f}", 13),
            (_percent(point.quality), 9),
        ):
            line.append_text(padded(Text(text), cells, right=True))
        closed = Text("  " + (_share(point.gap_closed) if point.gap_closed else self._signs.none))
        line.append_text(padded(closed, 24))
        if self._width >= _WITH_BAR and point.gap_closed is not None:
            line.append_text(self._bar(point.gap_closed.value))
        return line

    def _bar(self, share: float) -> Text:
        filled = round(_BAR * min(max(share, 0.0), 1.0))
        return Text.assemble((self._signs.bars[-1] * filled, GOOD), (self._signs.rule * (_BAR - filled), DIM))

    def _prose(self, text: Text, indent: int) -> Iterator[Text]:
        lead = Text(f" {self._signs.dot}" if indent == 2 else "")
        yield from hanging(lead, text, 3 if indent == 2 else indent, min(self._width, PROSE_WIDTH))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _share(interval: Interval) -> str:
    return f"{100 * interval.value:.0f}%{_ends(interval, '.0f')}"


def _ends(interval: Interval, form: str) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({100 * interval.low:{form}} to {100 * interval.high:{form}})"
