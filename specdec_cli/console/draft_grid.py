"""The tokens of a round as a grid: under each word its entropy in nats, and the gate's own figure if it is another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.text import Text

from specdec_cli.console.cells import padded, prefix_length
from specdec_cli.console.theme import ABOVE, BELOW, DIM, STYLES, Signs
from specdec_cli.console.tokens import is_eos, shown, sign_style
from specdec_cli.decoding.gate import crosses
from specdec_cli.transcript.token_fates import Fate, fates
from specdec_cli.types import LOW_IS_UNSURE, EventText, Round

ROW: Final = 8
"""Most tokens of a row."""

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
        return max(text.cell_len for text in (self.word, *self.figures))


def figure_names(settings: Mapping[str, object]) -> tuple[str, ...]:
    """What stands under each word: entropy, and the gate's own figure where the gate looks at another."""
    gate = str(settings.get("gate"))
    return ("entropy", gate) if gate in OWN_FIGURES else ("entropy",)


def threshold_of(settings: Mapping[str, object], *, waking: bool = False) -> float | None:
    """The gate's threshold in the unit of its figure; `waking`: the one that counts until the cloud has been called."""
    value = settings.get("wake" if waking else "threshold")
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def cells_of(round_: Round, text: EventText, settings: Mapping[str, object], signs: Signs) -> list[TokenCell]:
    """The tokens of a round in the order of the text, each run of one fate behind its sign."""
    every = fates(text.draft_pieces, text.committed_pieces, round_.source, round_.accepted)
    return list(_cells(every, round_, settings, signs))


def drafted_cells(round_: Round, text: EventText, settings: Mapping[str, object], signs: Signs) -> list[TokenCell]:
    """The drafted tokens alone, before anything became of them."""
    unjudged: Fate = "edge"
    every = ((piece, unjudged, index) for index, piece in enumerate(text.draft_pieces))
    return list(_cells(every, round_, settings, signs))


def _cells(
    tokens: Iterable[tuple[str, Fate, int | None]], round_: Round, settings: Mapping[str, object], signs: Signs
) -> Iterator[TokenCell]:
    before: tuple[str, Fate | None] = (" ", None)
    for piece, fate, index in tokens:
        sign = signs.roles[fate] if fate != before[1] else ""
        word = shown(piece, signs).strip()
        rendered = Text.assemble((sign, sign_style(fate)), (word, STYLES[fate]))
        joined = not (sign or before[0].endswith((" ", "\n")) or piece.startswith((" ", "\n")))
        figures = () if index is None else tuple(_figures(round_, index, settings))
        yield TokenCell(rendered, joined, figures, word[-1:] in _CLAUSE_ENDS, is_eos(piece))
        before = piece, fate


def _figures(round_: Round, index: int, settings: Mapping[str, object]) -> Iterator[Text]:
    threshold = threshold_of(settings, waking=round_.waking)
    for name in figure_names(settings):
        values = round_.entropy if name == "entropy" else round_.gate_values
        decides = name == settings.get("gate")
        if index < len(values):
            yield _figure(values[index], threshold if decides else None, name)


def _figure(value: float, threshold: float | None, gate: str) -> Text:
    """`0.42`, and `1.64!` where the token by itself crosses the gate's threshold."""
    shown_value = "?" if math.isnan(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
    if threshold is not None and crosses(gate, value, threshold):
        return Text(shown_value + "!", ABOVE)
    return Text(shown_value, BELOW)


def rows(cells: Sequence[TokenCell], width: int, *, by_clause: bool) -> Iterator[Sequence[TokenCell]]:
    """Cuts the tokens into rows of at most `ROW` tokens and `width` cells, `by_clause` behind each punctuation mark."""
    row: list[TokenCell] = []
    used = 0
    for cell, following in zip_longest(cells, cells[1:]):
        if row and (len(row) == ROW or used + 1 + cell.width > width):
            yield row
            row, used = [], 0
        used += cell.width + (1 if row else 0)
        row.append(cell)
        if by_clause and cell.ends_clause and not (following and following.ends_text):
            yield row
            row, used = [], 0
    if row:
        yield row


def grid(
    cells: Sequence[TokenCell], names: Sequence[str], width: int, signs: Signs, *, by_clause: bool = False
) -> Iterator[tuple[str, Text]]:
    """The lines of the grid, each with its name ("" for words): words, then a line for each figure.

    No line is wider than `width` cells; a single token that is wider is cut.
    """
    width = max(width, 1)
    for row in rows(cells, width, by_clause=by_clause):
        yield "", _line(row, [cell.word for cell in row], width, signs)
        for position, name in enumerate(names):
            figures = [cell.figures[position] if cell.figures else Text() for cell in row]
            if any(figure.plain for figure in figures):
                yield name, _line(row, figures, width, None)


def _line(row: Sequence[TokenCell], texts: Sequence[Text], width: int, signs: Signs | None) -> Text:
    """One line of a row; with `signs`, words that no space separates have a joint between them."""
    line = Text()
    for position, (cell, text) in enumerate(zip(row, texts, strict=True)):
        if position:
            line.append(signs.joint if signs is not None and cell.joined else " ", DIM)
        line.append_text(padded(text, cell.width))
    line.rstrip()
    if line.cell_len > width:
        line.right_crop(len(line.plain) - prefix_length(line.plain, width))
    return line


def figures_legend(settings: Mapping[str, object]) -> Text:
    """What stands under the words, and from which value on the gate escalates."""
    gate, threshold, wake = str(settings.get("gate")), threshold_of(settings), threshold_of(settings, waking=True)
    parts = ["entropy of each token, nats"]
    if gate in OWN_FIGURES:
        parts.append(f"{gate}: {OWN_FIGURES[gate]}")
    if threshold is not None and gate in ("entropy", *OWN_FIGURES):
        direction = "at or below" if gate in LOW_IS_UNSURE else "at or above"
        end = f"! {direction} {threshold:g}"
        if wake is not None:
            end = f"! {direction} {wake:g} until the cloud has been called, then {threshold:g}"
        parts.append(end)
    return Text("; ".join(parts))


def verdict_of(round_: Round, settings: Mapping[str, object]) -> str:
    """The gate's decision on a whole draft, in words, with the figure and the threshold that decided it."""
    outcome = "the cloud verifies the draft" if round_.escalated else "the draft is kept, the cloud is not called"
    gate = str(settings.get("gate"))
    if round_.reason in ("loop", "refusal", "language"):
        return f"{round_.reason}: {outcome}"
    threshold = threshold_of(settings, waking=round_.waking)
    if round_.gate_value is None or threshold is None or gate in ("always", "never"):
        return outcome
    low, escalates = gate in LOW_IS_UNSURE, crosses(gate, round_.gate_value, threshold)
    relation = ("at or " if escalates else "") + ("below" if low is escalates else "above")
    return f"{gate} {round_.gate_value:.2f}, {relation} {threshold:g}: {outcome}"
