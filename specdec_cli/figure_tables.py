"""Tables of figures as text, which the terminal and the pages set each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from specdec_cli import format as written
from specdec_cli.times import NONE
from specdec_cli.types import Interval


class Cell(NamedTuple):
    """A figure, and the ends of its interval, shown beside or below it."""

    value: str
    ends: str = ""


class FigureRow(NamedTuple):
    """A line of a table; one cell for each column. The label of a part of the line above is indented."""

    label: str
    cells: Sequence[Cell]


class FigureTable(NamedTuple):
    """Rows under the headings of their columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[FigureRow]


def measured(found: Interval | float | None, show: Callable[[float], str] = written.share) -> Cell:
    """A figure with its interval, whose ends have no more digits than a reader can use."""
    if found is None or isinstance(found, float | int):
        return Cell(NONE if found is None else show(found))
    return Cell(show(found.value), written.interval(found, written.percent if show is written.share else show))
