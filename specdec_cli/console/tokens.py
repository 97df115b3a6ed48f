"""The tokens of a run as text: single ones, rows with their figures, and the caption that they add up to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.theme import ABOVE, BELOW, DIM, EOS, JOINT, NEWLINE, PARTIAL, SIGNS, SPACE, STYLES
from specdec_cli.decoding.gate import crosses
from specdec_cli.transcript.token_fates import Fate, fates
from specdec_cli.types import LOW_IS_UNSURE, EventText, Mode, Round, Source

LABEL: Final = 8
"""Cells before the tokens of a row: for the names of figures, of which a longer one is cut."""
WIDEST: Final = 110
_MOST_TOKENS: Final = 8  # of a row
_EOS = re.compile(r"<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|</s>|<eos>")
_SPECIAL = re.compile(r"<\|(\w+)\|>")
_CLAUSE_ENDS: Final = frozenset(",;:.!?，、；：。！？…")
_WORDS: Final[dict[Fate, str]] = {"cut": "not judged", "run_on": "run on"}
_OWN_FIGURES: Final = {
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

    @property
    def width(self) -> int:
        """With the space before it."""
        return 1 + max(text.cell_len for text in (self.word, *self.figures))


def is_eos(piece: str) -> bool:
    """Whether `piece` is the token that ends a text, in the spelling of the usual tokenizers."""
    return _EOS.fullmatch(piece.strip()) is not None


def shown(piece: str) -> str:
    """`piece` with what cannot be seen made visible."""
    if is_eos(piece):
        return EOS
    if piece and not piece.strip():
        return NEWLINE if "\n" in piece else SPACE
    return _SPECIAL.sub(r"<\1>", clean(piece)).replace("\ufffd", PARTIAL).strip()


def cells_of(round_: Round, text: EventText, settings: Mapping[str, object]) -> Iterator[TokenCell]:
    """The tokens of a round in the order of the text, each run of one fate behind its sign."""
    tokens = list(fates(text.draft_pieces, text.committed_pieces, round_.source, round_.accepted))
    before: tuple[str, Fate | None] = (" ", None)
    for (piece, fate, index), following in zip_longest(tokens, tokens[1:]):
        mark = _sign(fate) if fate != before[1] else ("", "")
        word = shown(piece)
        joined = not (mark[0] or before[0].endswith((" ", "\n")) or piece.startswith((" ", "\n")))
        figures = () if index is None else tuple(_figures(round_, index, settings))
        ends_clause = word[-1:] in _CLAUSE_ENDS and not (following and is_eos(following[0]))
        yield TokenCell(Text.assemble(mark, (word, STYLES[fate])), joined, figures, ends_clause)
        before = piece, fate


def _sign(fate: Fate) -> tuple[str, str]:
    """The sign before a run of tokens of this fate, and its style."""
    return SIGNS[fate], STYLES[fate].replace(" strike", "")


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


def token_rows(
    label: str, cells: Sequence[TokenCell], width: int, names: Sequence[str], *, by_clause: bool = False
) -> Iterator[Table]:
    """Rows of tokens, figures under their words; a table for each, so that a token takes the cells that it needs.

    Args:
        label: what stands before the first row.
        cells: the tokens.
        width: cells of a row at most.
        names: of the figures, in the order of `TokenCell.figures`.
        by_clause: whether a row ends behind each punctuation mark.
    """
    for number, row in enumerate(_divided(cells, min(width, WIDEST) - LABEL, by_clause)):
        table = Table.grid()
        table.add_column(style=DIM, justify="right", width=LABEL, no_wrap=True, overflow="crop")
        for _ in row:
            table.add_column(no_wrap=True)
        joints = [(JOINT, DIM) if place and cell.joined else " " for place, cell in enumerate(row)]
        words = [Text.assemble(joint, cell.word) for joint, cell in zip(joints, row, strict=True)]
        table.add_row("" if number else label, *words)
        for place, name in enumerate(names):
            figures = [cell.figures[place] if cell.figures else Text() for cell in row]
            if any(figures):
                table.add_row(name, *(Text(" ") + figure for figure in figures))
        yield table


def _divided(cells: Sequence[TokenCell], width: int, by_clause: bool) -> Iterator[Sequence[TokenCell]]:
    row: list[TokenCell] = []
    for cell in cells:
        if row and (len(row) == _MOST_TOKENS or sum(each.width for each in row) + cell.width > width):
            yield row
            row = []
        row.append(cell)
        if by_clause and cell.ends_clause:
            yield row
            row = []
    if row:
        yield row


def figure_names(settings: Mapping[str, object]) -> tuple[str, ...]:
    """What stands under each word: entropy, and the gate's own figure where the gate looks at another."""
    gate = str(settings.get("gate"))
    return ("entropy", gate) if gate in _OWN_FIGURES else ("entropy",)


def threshold_of(settings: Mapping[str, object], *, waking: bool = False) -> float | None:
    """The gate's threshold in the unit of its figure; `waking`: the one that counts until the cloud has been called."""
    value = settings.get("wake" if waking else "threshold")
    return float(value) if isinstance(value, int | float) else None


def signs_legend(mode: Mode, *, run_on: bool) -> Text:
    """What the signs mean that `mode` needs; `run_on`: whether the cloud may write more than one token at a time."""
    named: list[Fate] = ["accepted", "rejected", "cut", "corrected", "bonus"] if mode in ("hybrid", "lossless") else []
    rendered = Text("edge unmarked  " if mode == "hybrid" else "")
    for fate in [*named, "run_on"] if named and run_on else named:
        rendered.append(*_sign(fate)).append(_WORDS.get(fate, fate), style=STYLES[fate]).append("  ")
    return rendered.append(JOINT, DIM).append(" between tokens")


def figures_legend(settings: Mapping[str, object]) -> str:
    """What stands under the words, and from which value on the gate escalates."""
    gate, threshold, wake = str(settings.get("gate")), threshold_of(settings), threshold_of(settings, waking=True)
    parts = ["entropy of each token, nats"]
    if gate in _OWN_FIGURES:
        parts.append(f"{gate}: {_OWN_FIGURES[gate]}")
    if threshold is not None and gate in ("entropy", *_OWN_FIGURES):
        direction = "at or below" if gate in LOW_IS_UNSURE else "at or above"
        until = "" if wake is None else f"{wake:g} until the cloud has been called, then "
        parts.append(f"! {direction} {until}{threshold:g}")
    return "; ".join(parts)


class CaptionTrail:
    """The clean caption, and how far its characters can be traced back to tokens.

    Bytes of one character may come in several tokens, and a tokenizer may change spaces: where the pieces do not
    spell the caption, the rest of it is shown in no colour rather than in a wrong one.
    """

    def __init__(self) -> None:
        self.caption = ""
        self._mixed = False
        self._parts: list[tuple[str, Source]] = []

    def add(self, round_: Round, text: EventText) -> None:
        """Take in what a round committed."""
        self._mixed = self._mixed or round_.escalated
        self._parts += [each for each in zip(text.committed_pieces, round_.source, strict=False) if not is_eos(each[0])]
        self.caption = text.caption

    def text(self) -> Text:
        """The caption as one paragraph; what the cloud put in is coloured and underlined."""
        rendered = Text(paragraph(self.caption))
        position = 0
        for piece, source in self._parts:
            bare = paragraph(piece)
            found = rendered.plain.find(bare, position, position + len(bare) + 1)
            if found < 0:
                break
            position = found + len(bare)
            if bare and (source in ("corrected", "bonus") or (source == "cloud" and self._mixed)):
                rendered.stylize(f"{STYLES[source]} underline", found, position)
        return rendered
