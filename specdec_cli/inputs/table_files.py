"""Rows of a table file (TSV, CSV, JSON or JSONL) as text by column, each with its place, and what their cells hold."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specdec_cli.config.problems import show, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.regular_files import open_regular
from specdec_cli.times import seconds

Cell = tuple[str, ...]
"""What a cell holds: nothing, one text, or (in JSON) a list of them."""

FILES: Final = ("file", "path", "filename", "file_name", "filepath", "file_path", "audio", "audio_path", "audio_file")
"""Names that a column of paths may have, of references as of a manifest."""
SPEAKERS: Final = ("speaker", "speaker_id", "spk", "spk_id", "client_id")
TEXTS: Final = ("text", "sentence", "transcript", "transcription")

MOST_BYTES: Final = 256 << 20
"""Of a table, a manifest or a file of cuts, unpacked."""
_SUFFIXES: Final = "Name it .tsv, .csv, .json or .jsonl after what it holds."
_OBJECTS: Final = 'Write a list of objects: [{"file": ..., "caption": ...}, ...].'
_TIMES: Final = "Write times as seconds, or as HH:MM:SS; the end comes after the start."


@dataclass(frozen=True, slots=True)
class Row:
    """One row: `place` is "clips.tsv, line 7" or "clips.json, item 3", `cells` the text in each column."""

    place: str
    cells: dict[str, Cell]

    def single(self, column: str | None) -> str | None:
        """The one text in a cell, None if it is empty or there is no column.

        Raises:
            ReferencesError: there are several.
        """
        cell = self.cells.get(column, ()) if column else ()
        if len(cell) > 1:
            message = f"{self.place}, column {show_name(str(column))}: one value was expected, not {show(list(cell))}."
            raise ReferencesError(message, hint="Only reference texts may come as a list.")
        return cell[0] if cell else None


@dataclass(frozen=True, slots=True)
class Table:
    """All rows; `columns` in the order of the file."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def first(self, wanted: Sequence[str]) -> str | None:
        """The first of the `wanted` names that is a column, case not counting."""
        folded = {column.casefold(): column for column in reversed(self.columns)}
        return next((folded[name] for name in wanted if name in folded), None)


def read_table(path: Path, *, any_bytes: bool = False) -> Table:
    """Reads a table by what its name's ending says it is.

    TSV is read as it stands, quotes being ordinary characters; where that gives rows of different length, or quoted
    column names, it is read with quotes. CSV may have semicolons or tabs for commas. JSON is a list of objects, or one
    object of objects by key, which becomes the column "key". JSONL is an object a line.

    `any_bytes`: bytes that are not UTF-8 may stand in it, as in names of files; see `os.fsdecode`.

    Raises:
        ReferencesError: it cannot be read or is malformed; names the line and the column.
    """
    kind = path.suffix.lower()
    if kind not in _READERS:
        message = f"{path} is no table that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=_SUFFIXES)
    text = read_text(path, any_bytes=any_bytes)
    if not text.strip():
        raise ReferencesError(f"{path} is empty.", hint="It needs a row of column names and a row per clip.")
    rows = tuple(_READERS[kind](path, text))
    if not rows:
        raise ReferencesError(f"{path} has no rows.", hint="It needs a row per clip.")
    return Table(path, tuple(dict.fromkeys(name for row in rows for name in row.cells)), rows)


def read_text(path: Path, *, any_bytes: bool = False) -> str:
    """The text of a regular file in UTF-8, or in UTF-16 with a byte order mark, as Praat and Excel write it.

    One whose name ends in .gz is unpacked. `any_bytes`: as of `read_table`.

    Raises:
        ReferencesError: it cannot be read, is no regular file (a pipe would be waited for), is no text, or has more
            than `MOST_BYTES` once unpacked.
    """
    try:
        with open_regular(path) as stored, gzip.open(stored) if path.name.endswith(".gz") else stored as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError, EOFError, zlib.error) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Check the path and its permissions, and whether the file is complete."
        raise ReferencesError(f"{path} cannot be read: {reason}.", hint=hint) from error
    if len(data) > MOST_BYTES:
        raise ReferencesError(f"{path} holds more than {MOST_BYTES >> 20} MiB.", hint="Split it into smaller files.")
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    errors = "surrogateescape" if any_bytes and not utf16 else "strict"
    try:
        return data.decode("utf-16" if utf16 else "utf-8-sig", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ReferencesError(f"{path}, line {line}: not UTF-8 text.", hint="Save it as UTF-8.") from error


def _tsv(path: Path, text: str) -> Iterator[Row]:
    plain = _records(path, text, "\t", csv.QUOTE_NONE)
    (_, header), *body = plain
    quoted = any(name.startswith('"') for name in header) or any(len(cells) != len(header) for _, cells in body)
    return _rows(path, _records(path, text, "\t", csv.QUOTE_MINIMAL) if quoted and '"' in text else plain)


def _csv(path: Path, text: str) -> Iterator[Row]:
    first = text.lstrip("\r\n").splitlines()[0]
    return _rows(path, _records(path, text, max(",;\t", key=first.count), csv.QUOTE_MINIMAL))


def _records(path: Path, text: str, delimiter: str, quoting: int) -> list[tuple[int, list[str]]]:
    """Line number and cells of each record that is not blank."""
    strict = quoting != csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=strict)  # type: ignore[arg-type]
    found, start = [], 1
    try:
        for record in reader:
            if "".join(record).strip() or len(record) > 1:
                found.append((start, record))
            start = reader.line_num + 1
    except csv.Error as error:
        hint = "Check the quotes of that line, and that each row ends where it should."
        raise ReferencesError(f"{path}, line {start}: {error}.", hint=hint) from error
    return found


def _rows(path: Path, records: Sequence[tuple[int, list[str]]]) -> Iterator[Row]:
    (line, header), *body = records
    columns = dict.fromkeys(name.strip() for name in header)
    if "" in columns or len(columns) < len(header):
        message = f"{path}, line {line}: a column has no name, or two have the same: {show([*columns])}."
        raise ReferencesError(message, hint="Give every column a name of its own.")
    for line, cells in body:
        if len(cells) != len(columns):
            raise ReferencesError(
                f"{path}, line {line}: {len(cells)} cells, but there are {len(columns)} columns.",
                hint="Check for separators inside a cell, and for a row that was cut off.",
            )
        texts = ((text,) if (text := cell.strip()) else () for cell in cells)
        yield Row(f"{path}, line {line}", dict(zip(columns, texts, strict=True)))


def _json(path: Path, text: str) -> Iterator[Row]:
    tree = parse_json(path, text)
    if not isinstance(tree, dict | list):
        raise ReferencesError(f"{path} holds {show(tree)}, not rows.", hint=_OBJECTS)
    for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree, 1):
        place = f"{path}, item {show(name)}"
        key = {"key": name} if isinstance(tree, dict) else {}
        yield _object_row(place, _object(place, value) | key)


def _jsonl(path: Path, text: str) -> Iterator[Row]:
    return (_object_row(place, value) for place, value in json_lines(path, text))


_READERS: Final = {
    **dict.fromkeys((".tsv", ".tab"), _tsv),
    ".csv": _csv,
    ".json": _json,
    **dict.fromkeys((".jsonl", ".ndjson"), _jsonl),
}


def json_lines(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of each line of `text`, which is that of a file.

    Raises:
        ReferencesError: a line is malformed, or holds something else.
    """
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, _object(place, parse_json(path, line, number))


def parse_json(path: Path, text: str, line: int = 1) -> Any:
    """What `text` holds, which begins in this line of a file.

    Raises:
        ReferencesError: it is malformed; names line and column.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                message = f"{path}, from line {line}: {show_name(name)} is given twice in one object."
                raise ReferencesError(message, hint="Keep one of them.")
            found[name] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{path}, line {line + error.lineno - 1}, column {error.colno}"
        raise ReferencesError(f"{place}: not valid JSON: {error.msg}.", hint="Check it around there.") from error
    except (RecursionError, ValueError) as error:
        raise ReferencesError(f"{path}, line {line}: nested too deep, or a number too long.", hint=_SUFFIXES) from error


def _object(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReferencesError(f"{place}: an object was expected, not {show(value)}.", hint=_OBJECTS)
    return value


def _object_row(place: str, value: dict[str, Any]) -> Row:
    return Row(place, {name: _cell(place, name, content) for name, content in value.items()})


def _cell(place: str, name: str, value: object) -> Cell:
    items = value if isinstance(value, list) else [value]
    if inner := next((item for item in items if isinstance(item, (dict, list))), None):
        message = f"{place}, column {show_name(name)}: text was expected, not {show(inner)}."
        raise ReferencesError(message, hint="A cell holds a text, a number, or a list of texts.")
    return tuple(text for item in items if item is not None and (text := str(item).strip()))


def one_line(value: object) -> str | None:
    """A text or a number as one line; None for nothing, and for anything else."""
    return " ".join(str(value).split()) or None if isinstance(value, str | int | float) else None


def span(place: str, start: object, end: object = None, *, length: object = None) -> tuple[float, float]:
    """Start and end of a part of a recording, seconds.

    Args:
        place: where it is written, for messages.
        start, end, length: numbers or texts, as `seconds` reads them; the end counts where no length is given.

    Raises:
        ReferencesError: one of them is no time, or the part is empty.
    """
    start_s = _time(place, start)
    end_s = _time(place, end if length is None else start_s + _time(place, length))
    if end_s <= start_s:
        raise ReferencesError(f"{place}: it begins at {start_s:g} s and ends at {end_s:g} s.", hint=_TIMES)
    return start_s, end_s


def _time(place: str, value: object) -> float:
    if (found := seconds(value)) is None:
        raise ReferencesError(f"{place}: {show(value)} is no time in a recording.", hint=_TIMES)
    return found
