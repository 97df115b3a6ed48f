"""Tables on stdout: settings, check-ups, and figures side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.config.problems import show
from specdec_cli.console.cells import clean
from specdec_cli.console.plain import console_on
from specdec_cli.console.theme import ASKED, BAD, DIM, FAIL, GOOD, OK, STRONG, WARN
from specdec_cli.format import count

if TYPE_CHECKING:
    from specdec_cli.evaluate.comparison_tables import FigureRow

Status = Literal["ok", "warn", "fail"]

PIPED_WIDTH: Final = 120
"""Cells of a line where there is no terminal to ask."""
_WIDEST: Final = 160
_STATUS: dict[Status, tuple[str, str]] = {"ok": (OK, GOOD), "warn": (WARN, ASKED), "fail": (FAIL, BAD)}
_UNLIMITED: Final = 10_000
_LABEL: Final = 18  # cells of a row's label in a grid, gap included
_NARROWEST: Final = 10  # cells of a grid's column, gap included


def print_page(
    page: Callable[[int], Iterable[RenderableType]], console: Console | None, *, piped_width: int = PIPED_WIDTH
) -> None:
    """Print a page of tables and prose to `console` (None: stdout), without blanks at the end of lines.

    `page` takes the width and gives the parts, which stand below each other.
    """
    console = console or console_on()
    console.width = min(console.width, _WIDEST) if console.is_terminal else piped_width
    for part in page(console.width):
        for segments in console.render_lines(part, pad=False):
            line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
            line.rstrip()
            console.print(line, soft_wrap=True)


def columns(*names: str, right: Sequence[str] = ()) -> Table:
    """An empty table without lines; the columns in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=DIM, show_header=any(names))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def grid(names: Sequence[str], rows: Sequence[FigureRow], width: int) -> Iterator[RenderableType]:
    """Rows under the names of their columns; columns that do not fit come in further blocks below.

    What a figure is compared with, its first note, stands beside it, or below it in a narrow column.
    """
    room = max((width - _LABEL) // _NARROWEST, 1)
    for start in range(0, len(names), room):
        block = slice(start, start + room)
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1), header_style=STRONG)
        table.add_column(width=_LABEL)
        for name in names[block]:
            table.add_column(Text(name), justify="right", max_width=(width - _LABEL) // len(names[block]) - 1)
        for row in rows:
            made = []
            for cell in row.cells[block]:
                note = "".join(f" {part}" for part in (cell.notes[0] if cell.notes else ()) if part)
                made.append(Text.assemble(cell.value, (note, DIM)))
            table.add_row(Text(f" {row.label}"), *made)
        yield table


def print_config(rows: Sequence[tuple[str, object, str]], *, console: Console | None = None) -> None:
    """Print settings, one a line: name, value as a file has it, origin. Piped lines are as long as they need to be."""
    table = columns("", "", "")
    for name, value, origin in rows:
        written = value if isinstance(value, str) else show(value)
        table.add_row(Text(clean(name)), Text(clean(written)), Text(clean(origin), DIM))
    print_page(lambda _: [table], console, piped_width=_UNLIMITED)


def print_doctor(checks: Sequence[tuple[str, Status, str]], *, console: Console | None = None) -> None:
    """Print checks, one a line: name, outcome (as a sign and a word) and detail of each."""
    table = columns("", "", "")
    for name, status, detail in checks:
        sign, style = _STATUS[status]
        table.add_row(Text(f"{sign} {status}", style), Text(clean(name)), Text(clean(detail)))
    statuses = [status for _, status, _ in checks]
    failed, warned = statuses.count("fail"), statuses.count("warn")
    parts = [count(number, noun) for number, noun in ((failed, "problem"), (warned, "warning")) if number]
    verdict = Text(f"{', '.join(parts)}.", BAD if failed else ASKED) if parts else Text("No problem found.", GOOD)
    print_page(lambda _: [table, Text(), verdict], console, piped_width=_UNLIMITED)
