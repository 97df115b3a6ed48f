"""Tables on stdout: settings, check-ups, and figures side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specdec_cli.config.problems import show
from specdec_cli.console.cells import clean, wrap
from specdec_cli.console.plain import console_on
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, STRONG, signs_for, written
from specdec_cli.format import count

if TYPE_CHECKING:
    from specdec_cli.evaluate.comparison_tables import Cell, FigureRow

Status = Literal["ok", "warn", "fail"]

PIPED_WIDTH: Final = 120
"""Cells of a line where there is no terminal to ask."""
PROSE_WIDTH: Final = 100
WIDEST: Final = 160

_STYLES: dict[Status, str] = {"ok": GOOD, "warn": ASKED, "fail": BAD}
_UNLIMITED: Final = 10_000
_LABEL: Final = 18  # cells of a row's label in a grid, gap included
_NARROWEST: Final = 10  # cells of a grid's column, gap included
_WIDEST_COLUMN: Final = 34


def page_width(console: Console) -> int:
    """Cells for a page of tables and prose."""
    return min(console.width, WIDEST) if console.is_terminal else PIPED_WIDTH


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines as they are, in the characters that `console` has."""
    signs = signs_for(console)
    for line in lines:
        line.plain = written(line.plain, signs)
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def columns(*right: bool) -> Table:
    """An empty table without lines; `right`: whether each column is aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for aligned in right:
        table.add_column(justify="right" if aligned else "left", overflow="fold")
    return table


def lines_of(table: Table, width: int) -> Iterator[Text]:
    """The lines of a table of at most `width` cells."""
    for line in console_on(width=width).render_lines(table, pad=False):
        yield Text.assemble(*((segment.text, segment.style or "") for segment in line))


def titled(title: str, note: str, width: int) -> Iterator[Text]:
    """An empty line, and the title of what follows."""
    yield Text()
    yield from wrap(Text.assemble((title, STRONG), (f" {note}" if note else "", DIM)), width)


def grid(names: Sequence[str], rows: Sequence[FigureRow], width: int) -> Iterator[Text]:
    """Rows under the names of their columns; what does not fit comes in further blocks below.

    What a figure is compared with, its first note, stands beside it or below it.
    """
    room = max((width - _LABEL) // _NARROWEST, 1)
    for start in range(0, len(names), room):
        block = slice(start, start + room)
        column = min((width - _LABEL) // len(names[block]), _WIDEST_COLUMN)
        table = Table(box=None, padding=0, header_style=STRONG)
        table.add_column(width=_LABEL)
        for name in names[block]:
            table.add_column(Text(name), justify="right", width=column)
        for row in rows:
            table.add_row(Text(f" {row.label}"), *_fitted(row.cells[block], column))
        if start:
            yield Text()
        yield from lines_of(table, width)


def _fitted(cells: Sequence[Cell], width: int) -> list[Text]:
    """A row in as few lines as its cells fit into."""
    for first, second in ((" ", " "), ("\n", " "), ("\n", "\n")):
        made = []
        for cell in cells:
            more, ends = cell.notes[0] if cell.notes else ("", "")
            note = second.join(filter(None, (more, ends)))
            made.append(Text.assemble(cell.value, (first + note if note else "", DIM)))
        if all(len(line) < width for text in made for line in text.plain.split("\n")):
            break
    return made


def _table_width(console: Console) -> int:
    return console.width if console.is_terminal else _UNLIMITED


def print_config(rows: Sequence[tuple[str, object, str]], *, console: Console | None = None) -> None:
    """Print settings, one a line: name, value as a file has it, origin. Piped lines are as long as they need to be."""
    console = console or console_on()
    table = columns(False, False, False)
    for name, value, origin in rows:
        written_as = value if isinstance(value, str) else show(value)
        table.add_row(Text(clean(name)), Text(clean(written_as)), Text(clean(origin), DIM))
    print_lines(lines_of(table, _table_width(console)), console)


def print_doctor(checks: Sequence[tuple[str, Status, str]], *, console: Console | None = None) -> None:
    """Print checks, one a line: name, outcome (as a sign and a word) and detail of each."""
    console = console or console_on()
    signs = signs_for(console)
    table = columns(False, False, False)
    for name, status, detail in checks:
        sign = getattr(signs, status)
        outcome = Text(status if sign == status else f"{sign} {status}", _STYLES[status])
        table.add_row(outcome, Text(clean(name)), Text(clean(detail)))
    statuses = [status for _, status, _ in checks]
    failed, warned = statuses.count("fail"), statuses.count("warn")
    parts = [count(number, noun) for number, noun in ((failed, "problem"), (warned, "warning")) if number]
    verdict = Text(f"{', '.join(parts)}.", BAD if failed else ASKED) if parts else Text("No problem found.", GOOD)
    print_lines([*lines_of(table, _table_width(console)), Text(), verdict], console)
