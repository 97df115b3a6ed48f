"""Rows of a table (TSV, CSV, JSON or JSON lines) as text by column, each with its place, and what their cells hold."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

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
JSON: Final = (".json", ".jsonl", ".ndjson")
_SEPARATED: Final = (".tsv", ".tab", ".csv")
_OBJECTS: Final = 'Write a list of objects: [{"file": ..., "caption": ...}, ...], or an object on each line.'
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


def ending(path: Path) -> str:
    """The ending of a name that says what a file holds, in lower case, without the .gz of a packed one."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_table(path: Path) -> Table:
    """Reads a table by what its name's ending says it is.

    Quotes of a TSV are ordinary characters, unless its first line begins with one. CSV may have semicolons or tabs for
    commas. JSON is what `read_objects` reads; a cell that holds an object counts as empty.

    Raises:
        ReferencesError: it cannot be read or is malformed; names the line.
    """
    kind = ending(path)
    if kind not in JSON + _SEPARATED:
        message = f"{path} is no table that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint="Name it .tsv, .csv, .json or .jsonl after what it holds.")
    rows = tuple(_object_rows(path) if kind in JSON else _separated(path, kind))
    if not rows:
        raise ReferencesError(f"{path} has no rows.", hint="It needs the names of the columns, and a row per clip.")
    return Table(path, tuple(dict.fromkeys(name for row in rows for name in row.cells)), rows)


def read_text(path: Path) -> str:
    """The text of a regular file in UTF-8, or in UTF-16 with a byte order mark, as Praat and Excel write it.

    One whose name ends in .gz is unpacked.

    Raises:
        ReferencesError: it cannot be read, is no text, or has more than `MOST_BYTES` once unpacked.
    """
    try:
        packed = path.name.lower().endswith(".gz")
        with open_regular(path) as stored, gzip.open(stored) if packed else stored as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError, EOFError, zlib.error) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Check the path and its permissions, and whether the file is complete."
        raise ReferencesError(f"{path} cannot be read: {reason}.", hint=hint) from error
    if len(data) > MOST_BYTES:
        raise ReferencesError(f"{path} holds more than {MOST_BYTES >> 20} MiB.", hint="Split it into smaller files.")
    try:
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ReferencesError(f"{path}, line {line}: not UTF-8 text.", hint="Save it as UTF-8.") from error


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of each item of a JSON list, of the `segments` of Whisper, or of each line of JSON lines.

    Raises:
        ReferencesError: it cannot be read or is malformed, or an item is no object; names the line or item.
    """
    text = read_text(path)
    try:
        tree = from_json(text)
    except ValueError as error:
        if not text.lstrip().startswith("{"):  # the first of several lines
            raise ReferencesError(f"{path}: not valid JSON: {error}.", hint=_OBJECTS) from error
        tree = {}
    items = tree.get("segments") if isinstance(tree, dict) else tree
    if isinstance(items, list):
        found: Iterator[tuple[str, Any]] = ((f"{path}, item {number}", item) for number, item in enumerate(items, 1))
    else:
        found = _lines(path, text)
    for place, value in found:
        if not isinstance(value, dict):
            raise ReferencesError(f"{place}: an object was expected, not {show(value)}.", hint=_OBJECTS)
        yield place, value


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, from_json(line)
            except ValueError as error:
                reason = str(error).partition(" at line ")[0]
                raise ReferencesError(f"{place}: not valid JSON: {reason}.", hint=_OBJECTS) from error


def _object_rows(path: Path) -> Iterator[Row]:
    for place, value in read_objects(path):
        yield Row(place, {name: _cell(content) for name, content in value.items()})


def _cell(value: object) -> Cell:
    items = value if isinstance(value, list) else [value]
    return tuple(text for item in items if isinstance(item, str | int | float) and (text := str(item).strip()))


def _separated(path: Path, kind: str) -> Iterator[Row]:
    text = read_text(path)
    header = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(",;\t", key=header.count) if kind == ".csv" else "\t"
    plain = kind != ".csv" and not header.startswith('"')
    quoting = csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=not plain)  # type: ignore[arg-type]
    columns: list[str] = []
    line = 1
    try:
        for record in reader:
            place, line = f"{path}, line {line}", reader.line_num + 1
            cells = [cell.strip() for cell in record]
            if cells in ([], [""]):
                continue
            if not columns:
                columns = cells
                if "" in columns or len(set(columns)) < len(columns):
                    message = f"{place}: a column has no name, or two have the same: {show(columns)}."
                    raise ReferencesError(message, hint="Give every column a name of its own.")
                continue
            if len(cells) != len(columns):
                message = f"{place}: {len(cells)} cells, but there are {len(columns)} columns."
                raise ReferencesError(message, hint="Check for a separator inside a cell, or a row cut off.")
            yield Row(place, {name: (cell,) if cell else () for name, cell in zip(columns, cells, strict=True)})
    except csv.Error as error:
        raise ReferencesError(f"{path}, line {line}: {error}.", hint="Check the quotes of that line.") from error


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
