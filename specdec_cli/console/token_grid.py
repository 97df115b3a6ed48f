"""Tokens in rows: under each word its entropy in nats, and the gate's own figure if that is another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from specdec_cli.console.theme import ABOVE, BELOW, DIM, JOINT, STYLES
from specdec_cli.console.tokens import is_eos, shown, sign
from specdec_cli.decoding.gate import crosses
from specdec_cli.transcript.token_fates import Fate, fates
from specdec_cli.types import LOW_IS_UNSURE, EventText, Round

LABEL: Final = 8
"""Cells before the tokens: for the names of figures, of which a longer one is cut."""
MOST_TOKENS: Final = 8
"""Of a row with figures."""
WIDEST: Final = 110

_CLAUSE_ENDS: Final = frozenset(",;:.!?，、；：。！？…")
OWN_FIGURES: Final = {
    "learned": "probability that the cloud changes the token",
    "margin": "p(likeliest) - p(second)",
    "logprob": "log-probability, nats",
    "class-entropy": "entropy over classes, nats",
}
"""Gates that look at another figure than entropy, and what it is."""


@dataclass(frozen=True, slots=True)
class TokenCell:
    """One token: its word, whether no space separates it from the one before, and its figures (empty: not drafted)."""

    word: Text
    joined: bool
    figures: tuple[Text, ...]
    ends_clause: bool
    ends_text: bool

    @property
    def width(self) -> int:
        """With the space before it."""
        return 1 + max(text.cell_len for text in (self.word, *self.figures))


@dataclass(frozen=True, slots=True)
class TokenGrid:
    """Rows of tokens, figures under their words.

    Attributes:
        label: what stands before the first row.
        cells: the tokens.
        names: of the figures, in the order of `TokenCell.figures`; none: words alone, as many as a row has room for.
        by_clause: whether a row ends behind each punctuation mark.
    """

    label: str
    cells: Sequence[TokenCell]
    names: Sequence[str] = ()
    by_clause: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table for each row, so that each token takes the cells that it needs."""
        for number, row in enumerate(self.rows(min(options.max_width, WIDEST) - LABEL)):
            table = Table.grid()
            table.add_column(style=DIM, justify="right", width=LABEL, no_wrap=True, overflow="crop")
            for _ in row:
                table.add_column(no_wrap=True)
            joints = [(JOINT, DIM) if place and cell.joined else " " for place, cell in enumerate(row)]
            words = [Text.assemble(joint, cell.word) for joint, cell in zip(joints, row, strict=True)]
            table.add_row("" if number else self.label, *words)
            for place, name in enumerate(self.names):
                figures = [cell.figures[place] if cell.figures else Text() for cell in row]
                if any(figures):
                    table.add_row(name, *(Text(" ") + figure for figure in figures))
            yield table

    def rows(self, width: int) -> Iterator[Sequence[TokenCell]]:
        """The tokens of each row, in `width` cells."""
        most = MOST_TOKENS if self.names else len(self.cells)
        row: list[TokenCell] = []
        for cell, following in zip_longest(self.cells, self.cells[1:]):
            if row and (len(row) == most or sum(each.width for each in row) + cell.width > width):
                yield row
                row = []
            row.append(cell)
            if self.by_clause and cell.ends_clause and not (following and following.ends_text):
                yield row
                row = []
        if row:
            yield row


def figure_names(settings: Mapping[str, object]) -> tuple[str, ...]:
    """What stands under each word: entropy, and the gate's own figure where the gate looks at another."""
    gate = str(settings.get("gate"))
    return ("entropy", gate) if gate in OWN_FIGURES else ("entropy",)


def threshold_of(settings: Mapping[str, object], *, waking: bool = False) -> float | None:
    """The gate's threshold in the unit of its figure; `waking`: the one that counts until the cloud has been called."""
    value = settings.get("wake" if waking else "threshold")
    return float(value) if isinstance(value, int | float) else None


def cells_of(round_: Round, text: EventText, settings: Mapping[str, object]) -> list[TokenCell]:
    """The tokens of a round in the order of the text, each run of one fate behind its sign."""
    every = fates(text.draft_pieces, text.committed_pieces, round_.source, round_.accepted)
    return list(_cells(every, round_, settings))


def drafted_cells(round_: Round, text: EventText, settings: Mapping[str, object]) -> list[TokenCell]:
    """The drafted tokens alone, before anything became of them."""
    unjudged: Fate = "edge"
    every = ((piece, unjudged, index) for index, piece in enumerate(text.draft_pieces))
    return list(_cells(every, round_, settings))


def _cells(
    tokens: Iterable[tuple[str, Fate, int | None]], round_: Round, settings: Mapping[str, object]
) -> Iterator[TokenCell]:
    before: tuple[str, Fate | None] = (" ", None)
    for piece, fate, index in tokens:
        mark = sign(fate) if fate != before[1] else ("", "")
        word = shown(piece)
        rendered = Text.assemble(mark, (word, STYLES[fate]))
        joined = not (mark[0] or before[0].endswith((" ", "\n")) or piece.startswith((" ", "\n")))
        figures = () if index is None else tuple(_figures(round_, index, settings))
        yield TokenCell(rendered, joined, figures, word[-1:] in _CLAUSE_ENDS, is_eos(piece))
        before = piece, fate


def _figures(round_: Round, index: int, settings: Mapping[str, object]) -> Iterator[Text]:
    """`0.42`, and `1.64!` where the token by itself crosses the gate's threshold."""
    threshold = threshold_of(settings, waking=round_.waking)
    for name in figure_names(settings):
        values = round_.entropy if name == "entropy" else round_.gate_values
        if index < len(values):
            value = values[index]
            figure = "?" if math.isnan(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
            above = name == settings.get("gate") and threshold is not None and crosses(name, value, threshold)
            yield Text(f"{figure}!", ABOVE) if above else Text(figure, BELOW)


def figures_legend(settings: Mapping[str, object]) -> str:
    """What stands under the words, and from which value on the gate escalates."""
    gate, threshold, wake = str(settings.get("gate")), threshold_of(settings), threshold_of(settings, waking=True)
    parts = ["entropy of each token, nats"]
    if gate in OWN_FIGURES:
        parts.append(f"{gate}: {OWN_FIGURES[gate]}")
    if threshold is not None and gate in ("entropy", *OWN_FIGURES):
        direction = "at or below" if gate in LOW_IS_UNSURE else "at or above"
        until = "" if wake is None else f"{wake:g} until the cloud has been called, then "
        parts.append(f"! {direction} {until}{threshold:g}")
    return "; ".join(parts)
