"""All captions as one table: CSV for spreadsheets and statistics."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from specdec_cli.batch.lines import Line, stored_lines
from specdec_cli.errors import ConfigError
from specdec_cli.export.recordings import Stored, columns, details
from specdec_cli.inputs.find import relative_name
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.inputs.recording import Key
from specdec_cli.targets import COLUMNS, STDOUT
from specdec_cli.transcript.schema import readable

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def table_rows(stored: Stored, inputs: Inputs | None = None) -> Iterator[str]:
    """One row per line of a transcript file, in the order of the inputs, after a row of headings.

    What lines say beyond their caption gets columns of its own, see `details`. A cell that a spreadsheet would run as a
    formula gets a ' in front.

    Args:
        stored: the transcripts.
        inputs: the recordings in order; lines of others come last. None: the order of the file.
    """
    ranks = {item.key: rank for rank, item in enumerate(inputs or ())}
    keys = sorted(stored.runs, key=lambda key: ranks.get(key, len(ranks)))
    more = columns(details(line.values) for line in stored.lines(keys))
    yield as_csv([*COLUMNS, *more])
    for line in stored.lines(keys):
        yield as_csv(_cells(line, stored.base, more))


def require_rows_of(table: Path, output: Path) -> None:
    """Refuses a table that has rows of other recordings than the output: another run wrote it.

    Raises:
        ConfigError: names a recording.
        TranscriptError: the output holds something else.
    """
    if table == STDOUT or not table.is_file():
        return
    with table.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = [Key.of(_undefused(row["file"]), _undefused(row["id"]) or None) for row in csv.DictReader(file)]
    known = {line.key for line in stored_lines(output)} if output.is_file() and rows else set()
    if others := [key for key in rows if key not in known]:
        raise ConfigError(
            f"--csv {table} has {len(others)} rows of recordings that {output} does not hold, e.g. {others[0].path}.",
            hint="It is the table of another --output. Name another file, or delete it.",
        )


def as_csv(cells: Iterable[object]) -> str:
    """A row, without formulas; true and false in lower case, nothing for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cells(line: Line, base: str, more: Sequence[str]) -> list[object]:
    values, error = line.values, line.values.get("error")
    described = f"{error['type']}: {error['message']}" if error else None
    known: dict[str, Any] = {**values, "name": relative_name(line.key.path, base), "error": described}
    found = details(values)
    return [*(known.get(column) for column in COLUMNS), *(found.get(name) for name in more)]


def _cell(cell: object) -> object:
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str):
        return cell
    return f"'{readable(cell)}" if _FORMULA.match(cell) else readable(cell)


def _undefused(cell: str | None) -> str:
    return cell[1:] if cell and cell.startswith("'") and _FORMULA.match(cell) else cell or ""
