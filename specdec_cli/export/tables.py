"""All captions as one table: CSV for spreadsheets and statistics."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from specdec_cli.export.recordings import Stored, columns, details
from specdec_cli.inputs.find import relative_name
from specdec_cli.text import readable

COLUMNS: Final = (
    *("name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "error"),
    *("mode", "edge", "cloud", "escalations", "degraded"),
)
_FORMULA: Final = re.compile(r"(^|[;\t]\s*\"?)('*[=+\-@\t\r])")
"""The beginning of a formula in a cell, or in a part of it that `;` or a tab would make a cell."""


def table(stored: Stored) -> str:
    """CSV: a row of headings, and one per line of a transcript file.

    Each of the `details` has a column. A text that a spreadsheet would run as a formula gets a ' in front. A byte order
    mark makes Excel read UTF-8.
    """
    rows = []
    for line in chain.from_iterable(stored.runs.values()):
        head, error = line.head, line.head.error
        described = f"{error.type}: {error.message}" if error else None
        known = {"name": relative_name(line.key.path, stored.base), "error": described, "escalations": line.escalations}
        known |= {role: info.name if info else None for role, info in head.models}
        rows.append(({**dict(head), **known}, details(head)))
    more = columns(found for _, found in rows)
    cells = ([*map(known.get, COLUMNS), *map(found.get, more)] for known, found in rows)
    return f"\ufeff{_csv([[*COLUMNS, *more], *cells])}"


def _csv(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells; nothing for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(cell: object) -> object:
    """A cell with true and false in lower case and without formulas, also where `;` or tabs split rows."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return _FORMULA.sub(r"\1'\2", readable(cell)) if isinstance(cell, str) else cell
