"""All captions as one table: CSV for spreadsheets and statistics, and a database in audformat's layout."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from specdec_cli.export.recordings import CaptionedRecording, Stored, columns, details, one_line, short_name
from specdec_cli.export.turns import clock
from specdec_cli.inputs.find import relative_name
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.targets import COLUMNS
from specdec_cli.transcript.records import readable

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
_LANGUAGES: Final = {"zh": "zho", "en": "eng"}  # ISO 639-3
_FIGURES: Final = ("score", "measured")
_TRUTHS: Final = ("needs", "agrees")


def table_rows(stored: Stored, inputs: Inputs | None = None) -> Iterator[str]:
    """One row per line of a transcript file, in the order of the inputs, after a row of headings.

    What lines say beyond their caption has columns of its own, see `details`. A cell that a spreadsheet would run as a
    formula gets a ' in front. `inputs`: the recordings in order; lines of others come last. None: the file's order.
    """
    ranks = {item.key: rank for rank, item in enumerate(inputs or ())}
    keys = sorted(stored.runs, key=lambda key: ranks.get(key, len(ranks)))
    lines = [line for key in keys for line in stored.runs[key]]
    more = columns(details(line.head) for line in lines)
    yield _as_csv([*COLUMNS, *more])
    for line in lines:
        head, error = line.head, line.head.error
        described = f"{error.type}: {error.message}" if error else None
        known: dict[str, Any] = {**dict(head), "name": relative_name(line.key.path, stored.base), "error": described}
        found = details(head)
        yield _as_csv([*(known.get(column) for column in COLUMNS), *(found.get(name) for name in more)])


def database(recordings: Iterable[CaptionedRecording]) -> dict[str, str]:
    """The files of a database (https://audeering.github.io/audformat/): header, and a table of pieces by their time.

    Columns are the caption and `details`; a label's column is called like its attribute. Recordings are named by their
    absolute paths, where audformat finds them.

    Returns:
        Name of a file in the database's folder -> its text.
    """
    pieces = [(recording.path, piece) for recording in recordings for piece in recording.pieces]
    found = ["caption", *columns(piece.details for _, piece in pieces)]
    schemes: dict[str, dict[str, object]] = {}
    for column in found:
        kind = column.partition("_")[0]
        schemes[short_name(column)] = {"dtype": "float" if kind in _FIGURES else "bool" if kind in _TRUTHS else "str"}
        if kind == "label" and (said := {one_line(piece.details.get(column) or "") for _, piece in pieces} - {""}):
            schemes[short_name(column)]["labels"] = sorted(said)
    fields = {name: {"scheme_id": name, "rater_id": "specdec"} for name in schemes}
    header = {
        "name": "specdec",
        "source": "specdec",
        "usage": "other",
        "languages": sorted({_LANGUAGES[piece.language] for _, piece in pieces}),
        "description": "How people speak, described by audio language models.",
        "raters": {"specdec": {"type": "machine"}},
        "schemes": schemes,
        "tables": {"pieces": {"type": "segmented", "columns": fields}},
    }
    rows = [_as_csv(["file", "start", "end", *schemes])]
    for path, piece in pieces:
        known = {"caption": piece.caption, **piece.details}
        cells = (known.get(column) for column in found)
        shown = (one_line(cell) if isinstance(cell, str) else cell for cell in cells)
        rows.append(_as_csv([path, _time(piece.start_ms), _time(piece.end_ms), *shown]))
    return {"db.yaml": yaml.safe_dump(header, sort_keys=False, allow_unicode=True), "db.pieces.csv": "".join(rows)}


def _time(time_ms: int) -> str:
    """As pandas writes a Timedelta."""
    days, rest = divmod(time_ms, 86_400_000)
    return f"{days} days {clock(rest, '.')}000"


def _as_csv(cells: Iterable[object]) -> str:
    """A row, without formulas; true and false in lower case, nothing for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(cell: object) -> object:
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str):
        return cell
    return f"'{readable(cell)}" if _FORMULA.match(cell) else readable(cell)
