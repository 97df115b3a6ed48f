"""Pages on stdout and their parts: tables, figures side by side; the pages of `config` and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import Prose
from specdec_cli.console.plain import console_on
from specdec_cli.console.theme import BAD, DIM, DOT, FAIL, GOOD, NOTICE, OK, STRONG, WARN
from specdec_cli.figure_tables import Cell, FigureRow
from specdec_cli.format import count
from specdec_cli.text import clean, show

Status = Literal["ok", "warn", "fail"]
Page = Callable[[int], Iterable[RenderableType]]
"""Width in cells -> the parts of a page, from top to bottom."""

ONE_LINE: Final = 10_000
"""Cells in which each row of a table is one line."""
_PIPED_WIDTH: Final = 120  # where there is no terminal
_WIDEST: Final = 160
_STATUS: Final[dict[Status, tuple[str, str]]] = {"ok": (OK, GOOD), "warn": (WARN, NOTICE), "fail": (FAIL, BAD)}
_LABEL: Final = (18, 24)  # cells of a row's label in a grid, gap included: on a terminal below 80 cells, and otherwise
_NARROWEST: Final = 10  # cells of a grid's column, gap included


def print_page(page: Page, console: Console | None = None, *, piped_width: int = _PIPED_WIDTH) -> None:
    """Print a page to `console` (None: stdout), without blanks at the end of lines."""
    console = console or console_on()
    console.width = min(console.width, _WIDEST) if console.is_terminal else piped_width
    for part in page(console.width):
        for segments in console.render_lines(part, pad=False):
            line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
            line.rstrip()
            console.print(line, soft_wrap=True)


def item(sentence: str | Text) -> Prose:
    """A sentence of a list."""
    return Prose(Text(clean(sentence)) if isinstance(sentence, str) else sentence, Text(DOT), indent=3)


def facts(*parts: str) -> Prose:
    """A line of facts, such as the head of a page."""
    return Prose(Text(DOT.join(map(clean, parts)), DIM))


def columns(*names: str, right: Sequence[str] = ()) -> Table:
    """An empty table without lines; the columns in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=DIM, show_header=any(names))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def grid(names: Sequence[str], rows: Sequence[FigureRow], width: int) -> Iterator[RenderableType]:
    """Rows under the names of their columns; columns that do not fit follow in further tables below.

    The ends of an interval are beside its figure, or below it in a narrow column.
    """
    label = _LABEL[width >= 80]
    room = max((width - label) // _NARROWEST, 1)
    for start in range(0, len(names), room):
        block = slice(start, start + room)
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1), header_style=STRONG)
        table.add_column(width=label)
        for name in names[block]:
            table.add_column(Text(name), justify="right", max_width=(width - label) // len(names[block]) - 1)
        for row in rows:
            table.add_row(Text(f" {row.label}"), *map(_figure, row.cells[block]))
        yield table


def _figure(cell: Cell) -> Text:
    return Text.assemble(cell.value, (f" {cell.ends}" if cell.ends else "", DIM))


def config_page(rows: Iterable[Sequence[object]], _: int) -> Iterator[RenderableType]:
    """Settings, one a line: name, value as in a file, origin, and meaning where it is given."""
    table = columns("", "", "", "")
    for name, value, *more in rows:
        written = value if isinstance(value, str) else show(value)
        table.add_row(Text(clean(str(name))), Text(clean(written)), *(Text(clean(str(each)), DIM) for each in more))
    yield table


def doctor_page(checks: Sequence[tuple[str, Status, str]], _: int) -> Iterator[RenderableType]:
    """Checks, one a line: name, outcome (as a sign and a word) and detail of each."""
    table = columns("", "", "")
    for name, status, detail in checks:
        sign, style = _STATUS[status]
        table.add_row(Text(f"{sign} {status}", style), Text(clean(name)), Text(clean(detail)))
    statuses = [status for _, status, _ in checks]
    problems = [(statuses.count("fail"), "problem"), (statuses.count("warn"), "warning")]
    verdict = ", ".join(count(number, noun) for number, noun in problems if number)
    style = BAD if "fail" in statuses else NOTICE if verdict else GOOD
    yield from (table, Text(), Text(f"{verdict or 'No problem found'}.", style))
