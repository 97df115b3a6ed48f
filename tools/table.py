"""Tables of figures on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from specdec_cli.types import Interval


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under their columns: the first one on the left, figures on the right."""
    if title:
        print(title)
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=200, markup=False, highlight=False).print(table)


def spread_text(spread: Interval, digits: int = 2) -> str:
    """A figure with the ends of its interval, where it has one."""
    value = f"{spread.value:.{digits}f}"
    if spread.low is None or spread.high is None:
        return value
    return f"{value} ({spread.low:.{digits}f}-{spread.high:.{digits}f})"
