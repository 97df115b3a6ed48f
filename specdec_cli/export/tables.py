"""All captions as one table: CSV for spreadsheets and statistics, a database for audformat, an AudioFolder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final

import yaml

from specdec_cli.export.recordings import CaptionedRecording, Stored, columns, details, short_name
from specdec_cli.inputs.find import relative_name
from specdec_cli.text import one_line, readable
from specdec_cli.times import clock

COLUMNS: Final = (
    *("name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "error"),
    *("mode", "edge", "cloud", "escalations", "degraded"),
)
_LANGUAGES: Final = {"zh": "zho", "en": "eng"}  # ISO 639-3
_TYPES: Final = {"score": "float", "measured": "float", "needs": "bool", "agrees": "bool", "channel": "int"}
_FORMULA: Final = re.compile(r"(^|[;\t]\s*\"?)('*[=+\-@\t\r])")
"""The beginning of a formula in a cell, or in a part of it that `;` or a tab would make a cell."""
_OF_FOLDERS: Final = ("speaker", "text", "label_")


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
    return f"\ufeff{_csv([[*COLUMNS, *more], *cells], _cell)}"


def database(recordings: Iterable[CaptionedRecording]) -> dict[str, str]:
    """The files of a database (https://audeering.github.io/audformat/): header, and a table of pieces by their time.

    Columns are the caption and `details`; a label's column is called like its attribute. Recordings are named by their
    absolute paths, where audformat finds them.

    Returns:
        Name of a file in the database's folder -> its text.
    """
    pieces = [(recording.path, piece) for recording in recordings for piece in recording.pieces]
    found = ["caption", "language", *columns(piece.details for _, piece in pieces)]
    schemes: dict[str, dict[str, object]] = {}
    for column in found:
        kind = column.partition("_")[0]
        schemes[short_name(column)] = {"dtype": _TYPES.get(kind, "str")}
        if kind == "label" and (said := {one_line(piece.details.get(column) or "") for _, piece in pieces} - {""}):
            schemes[short_name(column)]["labels"] = sorted(said)
    schemes["language"]["description"] = "of the caption; which language is spoken is not known"
    fields = {name: {"scheme_id": name, "rater_id": "specdec"} for name in schemes}
    header = {
        "name": "specdec",
        "source": "specdec",
        "usage": "other",
        "description": "How people speak, described by audio language models.",
        "raters": {"specdec": {"type": "machine"}},
        "schemes": schemes,
        "tables": {"pieces": {"type": "segmented", "columns": fields}},
    }
    rows: list[list[object]] = [["file", "start", "end", *schemes]]
    for path, piece in pieces:
        known = {"caption": piece.caption, "language": _LANGUAGES[piece.line.head.language], **piece.details}
        shown = (one_line(cell) if isinstance(cell, str) else cell for cell in map(known.get, found))
        rows.append([path, _time(piece.start_ms), _time(piece.end_ms), *shown])
    return {"db.yaml": yaml.safe_dump(header, sort_keys=False, allow_unicode=True), "db.pieces.csv": _csv(rows, _plain)}


def audio_folder(recordings: Iterable[CaptionedRecording], folder: Path) -> tuple[str, list[str]]:
    """The `metadata.jsonl` that makes a folder of recordings an AudioFolder of Hugging Face's `datasets`.

    A line is a recording: its file's name in the folder, its caption, and speaker, text and classes where any line has
    them. From a CSV `datasets` would read the speaker 0011 as the number 11.
    Format: https://huggingface.co/docs/datasets/audio_dataset#audiofolder

    Returns:
        The text of the file, and the recordings that it leaves out: their files are not in the folder, their names are
        no UTF-8, or they were captioned in pieces, for which the layout has no places.
    """
    rows: list[dict[str, Any]] = []
    left_out, base = [], Path(os.path.abspath(folder))
    for recording in recordings:
        (piece, *more), path = recording.pieces, Path(recording.path)
        whole = piece.start_ms == 0 and piece.end_ms >= round(1000 * recording.duration_s)
        is_there = path.is_relative_to(base) and path.is_file()
        if more or not whole or not is_there or readable(recording.path) != recording.path:
            left_out.append(recording.path)
            continue
        known = {name: one_line(cell) for name, cell in piece.details.items() if name.startswith(_OF_FOLDERS) and cell}
        rows.append({"file_name": path.relative_to(base).as_posix(), "caption": piece.caption, **known})
    names = ["file_name", "caption", *columns(row.keys() - {"file_name", "caption"} for row in rows)]
    lines = (json.dumps({short_name(name): row.get(name) for name in names}, ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines), left_out


def _time(time_ms: int) -> str:
    """As pandas writes a Timedelta."""
    days, rest = divmod(time_ms, 86_400_000)
    return f"{days} days {clock(rest, '.')}000"


def _csv(rows: Iterable[Iterable[object]], cell: Callable[[object], object]) -> str:
    """Rows with their cells as `cell` gives them; nothing for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(cell, row) for row in rows)
    return text.getvalue()


def _plain(cell: object) -> object:
    """A cell with true and false in lower case."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return readable(cell) if isinstance(cell, str) else cell


def _cell(cell: object) -> object:
    """The same without formulas, also for programs that split rows at `;` or at tabs."""
    return _FORMULA.sub(r"\1'\2", readable(cell)) if isinstance(cell, str) else _plain(cell)
