"""All captions as one table: CSV for spreadsheets and statistics."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from specdec_cli.export.recordings import Stored, all_columns, columns, details
from specdec_cli.inputs.find import relative_name
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.targets import COLUMNS
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.records import readable

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def table_rows(stored: Stored, inputs: Inputs | None = None) -> Iterator[str]:
    """One row per line of a transcript file, in the order of the inputs, after a row of headings.

    What lines say beyond their caption has columns of its own, see `details`; those of `all_columns` are always there,
    so that the tables of two runs have the same ones. A cell that a spreadsheet would run as a
    formula gets a ' in front.

    Args:
        stored: the transcripts.
        inputs: the recordings in order; lines of others come last. None: the order of the file.
    """
    ranks = {item.key: rank for rank, item in enumerate(inputs or ())}
    keys = sorted(stored.runs, key=lambda key: ranks.get(key, len(ranks)))
    more = columns(chain([all_columns()], (details(line.head) for line in stored.lines(keys))))
    yield as_csv([*COLUMNS, *more])
    for line in stored.lines(keys):
        yield as_csv(_cells(line, stored.base, more))


def as_csv(cells: Iterable[object]) -> str:
    """A row, without formulas; true and false in lower case, nothing for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cells(line: Line, base: str, more: Sequence[str]) -> list[object]:
    head, error = line.head, line.head.error
    described = f"{error.type}: {error.message}" if error else None
    known: dict[str, Any] = {**dict(head), "name": relative_name(line.key.path, base), "error": described}
    found = details(head)
    return [*(known.get(column) for column in COLUMNS), *(found.get(name) for name in more)]


def _cell(cell: object) -> object:
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str):
        return cell
    return f"'{readable(cell)}" if _FORMULA.match(cell) else readable(cell)
