"""Figures of several columns side by side, each with a second figure beside or below it, at any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from specdec_cli.console.cells import padded
from specdec_cli.console.theme import DIM, STRONG

_LABEL: Final = 16  # cells, gap included
_NARROWEST: Final = 10  # cells of a column, gap included
_WIDEST: Final = 34


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure.

    Attributes:
        value: the figure itself.
        more: what it is compared with something, short.
        spread: how sure that is, short.
    """

    value: str
    more: str = ""
    spread: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of every column."""

    label: str
    cells: tuple[Cell, ...]


def render(columns: Sequence[str], rows: Sequence[Row], width: int) -> Iterator[Text]:
    """The rows under their columns, right-aligned; columns that do not fit come in further blocks below.

    Args:
        columns: their names.
        rows: as many cells each as there are columns.
        width: cells of a line.
    """
    room = max((width - _LABEL) // _NARROWEST, 1)
    for start in range(0, len(columns), room):
        if start:
            yield Text()
        shown = slice(start, start + room)
        block = columns[shown]
        column = min((width - _LABEL) // len(block), _WIDEST)
        yield Text.assemble(" " * _LABEL, *(padded(Text(name, STRONG), column, right=True) for name in block)).copy()
        for row in rows:
            yield from _lines(row.label, row.cells[shown], column)


def _lines(label: str, cells: Sequence[Cell], column: int) -> Iterator[Text]:
    """A row in as few lines as its cells fit into."""
    for layout in (_beside, _below, _stacked):
        lines = [layout(cell) for cell in cells]
        if all(line.cell_len < column for cell in lines for line in cell) or layout is _stacked:
            break
    for index in range(max(map(len, lines))):
        parts = [padded(line[index] if index < len(line) else Text(), column, right=True) for line in lines]
        yield Text.assemble(padded(Text(f" {label}" if index == 0 else ""), _LABEL), *parts)


def _beside(cell: Cell) -> list[Text]:
    return [_joined(Text(cell.value), Text(cell.more, DIM), Text(cell.spread, DIM))]


def _below(cell: Cell) -> list[Text]:
    second = _joined(Text(cell.more, DIM), Text(cell.spread, DIM))
    return [Text(cell.value), second] if second else [Text(cell.value)]


def _stacked(cell: Cell) -> list[Text]:
    return [Text(cell.value), *(Text(part, DIM) for part in (cell.more, cell.spread) if part)]


def _joined(*parts: Text) -> Text:
    return Text(" ").join([part for part in parts if part])
