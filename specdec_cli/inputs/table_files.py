"""Tables (TSV, CSV, JSON or JSON lines): rows with their places, and the texts in their cells."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import decoded, ending, read_text
from specdec_cli.text import show, show_name

Object = tuple[str, dict[str, Any]]  # the place of an item or a line of JSON, and what it holds
Cell = tuple[str, ...]  # what a cell holds: nothing, one text, or (in JSON) a list of them

MOST_ROWS: Final = 2_000_000
"""Most rows of a table: in memory a row takes some hundred times the bytes of the shortest one in a file."""
JSON: Final = (".json", ".jsonl", ".ndjson")
_SEPARATED: Final = (".tsv", ".tab", ".csv")
_OBJECTS: Final = 'Write a list of objects: [{"file": ..., "caption": ...}, ...], or an object on each line.'
_LISTS: Final = ["segments", "utterances", "chunks", "diarization", "transcription", "audio_segments", "sentence_info"]
"""Keys of the list of what was said: of Whisper and WhisperX, AssemblyAI and Deepgram, transformers, pyannote,
whisper.cpp, Amazon and FunASR."""
_WITHIN: Final = ("output", "results")  # of the services of pyannoteAI, and of Deepgram and Amazon
_NO_TABLES: Final = {
    (".txt", ".list", ".lst", ".m3u"): "A list of paths is given on stdin: specdec batch - < FILE.",
    (".xlsx", ".xls", ".ods", ".numbers"): "Save it as CSV.",
}
_SEPARATOR: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MOST_LINES: Final = 100  # of a quoted cell
OWN_COLUMNS: Final = (
    *("name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "error"),
)
"""The first columns of a table that specdec exported: they identify it, also after edits."""
_FORMULA: Final = re.compile(r"(^|[;\t]\s*\"?)('*[=+\-@\t\r])")
"""The beginning of a formula in a cell, or in a part of it that `;` or a tab would make a cell."""
_NO_FORMULA: Final = re.compile(r"(^|[;\t]\s*\"?)'('*[=+\-@\t\r])")


class Row(NamedTuple):
    """One row: `place` is "clips.tsv, line 7" or "clips.json, item 3", `values` what each column holds in the file."""

    place: str
    values: Mapping[str, Any]

    def cell(self, column: str | None) -> Cell:
        """The texts in a cell: none if it is empty or there is no such column."""
        value = None if column is None else self.values.get(column)
        items = value if isinstance(value, list) else [value]
        return tuple(text for item in items if isinstance(item, str | int | float) and (text := str(item).strip()))

    def single(self, column: str | None) -> str | None:
        """The one text in a cell, None if it is empty or there is no column.

        Raises:
            ValueError: there are several; says so.
        """
        value = None if column is None else self.values.get(column)
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        if len(cell := self.cell(column)) > 1:
            raise ValueError(f"column {show_name(str(column))}: one value was expected, not {show(list(cell))}")
        return cell[0] if cell else None


@dataclass(frozen=True, slots=True)
class Table:
    """All rows; `columns` in the order of the file."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def own(self) -> bool:
        """Whether specdec exported it: a row without times is about a whole recording."""
        return self.columns[: len(OWN_COLUMNS)] == OWN_COLUMNS


def read_table(path: Path, skips: Skips | None = None, objects: Iterable[Object] | None = None) -> Table:
    """Reads a table in the format that the ending of its name stands for.

    Quotes of a TSV are ordinary characters, unless its first line begins with one. CSV may have semicolons, tabs or
    bars for commas, as a first line `sep=;` says, or the header. Empty rows, and columns without a name, are passed
    over. JSON is what `read_objects` reads; what an object in a cell holds becomes columns of its own, `audio.path`.
    `objects`: what `read_objects` found, if it was read before.

    Raises:
        ReferencesError: it cannot be read, or has no row; a row that cannot be read is left out, see `Skips`.
    """
    skips = Skips() if skips is None else skips
    kind = ending(path)
    if kind not in JSON + _SEPARATED:
        other = next((f"{way} " for endings, way in _NO_TABLES.items() if kind in endings), "")
        message = f"{path} is no table that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=f"{other}A table is named .tsv, .csv, .json or .jsonl after what it holds.")
    if kind in _SEPARATED:
        rows = tuple(_separated(path, kind, skips))
    else:
        rows = tuple(starmap(_row_of, read_objects(path, skips) if objects is None else objects))
    skips.require_some(rows, f"{path} has no rows.", "It needs the names of the columns, and a row per clip.")
    return Table(path, tuple(dict.fromkeys(chain.from_iterable(row.values for row in rows))), rows)


def read_objects(path: Path, skips: Skips) -> Iterator[Object]:
    """Place and object of each item of a JSON list, of the list under one of `_LISTS`, or of each line of JSON lines.

    What is no object is left out.

    Raises:
        ReferencesError: it cannot be read, or is no JSON at all.
    """
    text = read_text(path)
    try:
        tree = from_json(text)
    except ValueError as error:
        if not text.lstrip().startswith("{"):  # the first of several lines
            raise ReferencesError(f"{path}: not valid JSON: {error}.", hint=_OBJECTS) from error
        tree = {}
    if (
        isinstance(tree, list)
        and len(tree) == 1
        and isinstance(tree[0], dict)
        and not tree[0].keys().isdisjoint(_LISTS)
    ):
        (tree,) = tree
    within = [*map(tree.get, _WITHIN), tree] if isinstance(tree, dict) else []
    lists = (one[name] for one in within if isinstance(one, dict) for name in _LISTS if name in one)
    items = next(lists, None) if within else tree
    if isinstance(items, list):
        found: Iterator[tuple[str, Any]] = ((f"{path}, item {number}", item) for number, item in enumerate(items, 1))
    else:
        found = _lines(path, text, skips)
    for place, value in found:
        if isinstance(value, dict):
            yield place, value
        else:
            skips.leave_out(place, f"an object was expected, not {show(value)}")


def _lines(path: Path, text: str, skips: Skips) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, from_json(line)
            except ValueError as error:
                reason = str(error).partition(" at line ")[0]
                skips.leave_out(place, f"not valid JSON: {reason}")


def _row_of(place: str, value: Mapping[str, Any]) -> Row:
    """The row of an object: an object inside it becomes columns like `audio.path`, a pair of times two columns."""
    if "timestamp" not in value and not any(isinstance(content, dict) for content in value.values()):
        return Row(place, value)
    flat: dict[str, Any] = {}
    for name, content in value.items():
        if isinstance(content, dict):
            flat |= {f"{name}.{inner}": below for inner, below in content.items()}
        elif name == "timestamp" and isinstance(content, list) and len(content) == 2:
            flat |= {"start": content[0], "end": content[1]}
        else:
            flat[name] = content
    return Row(place, flat)


def _separated(path: Path, kind: str, skips: Skips) -> Iterator[Row]:
    """The rows of a text of separated cells; rows with more or fewer cells than columns are left out.

    A record ends where its number of quotes is even, so that a stray quote costs its own line and no other.
    """
    lines = read_text(path, lenient=True).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    delimiter = "\t"
    if told := _SEPARATOR.fullmatch(lines[0]):
        delimiter = told[1]
        lines[0] = ""
    header = next((line for line in lines if line.strip()), "")
    if kind == ".csv" and not told:
        delimiter = max(",;\t|", key=header.count)
    with path.open("rb") as file:  # Excel's "Unicode text" has quotes as CSV has
        is_utf16 = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    plain = kind != ".csv" and not header.startswith('"') and not is_utf16
    records = [*islice(_records(path, lines, delimiter, skips, plain=plain), MOST_ROWS + 1)]
    if len(records) > MOST_ROWS:
        raise ReferencesError(f"{path} has more than {MOST_ROWS:,} rows.", hint="Split it into smaller files.")
    if not records:
        return
    (place, columns), *rows = records
    while columns and not columns[-1]:
        columns.pop()
    if rows and all(len(columns) < len(cells) and cells[len(columns)] and cells[0].isdecimal() for _, cells in rows):
        columns.insert(0, "")  # R writes an index without a name for it
    named = [name for name in columns if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        message = f"{place}: two columns are called {show_name(twice)}."
        raise ReferencesError(message, hint="Give every column a name of its own.")
    count, own = len(columns), tuple(named[: len(OWN_COLUMNS)]) == OWN_COLUMNS
    for place, cells in rows:
        if len(cells) < count or any(cells[count:]):
            skips.leave_out(place, f"{len(cells)} cells, but there are {count} columns")
        else:
            cells = [_NO_FORMULA.sub(r"\1\2", cell) for cell in cells] if own else cells
            yield Row(place, {name: cell for name, cell in zip(columns, cells, strict=False) if name})


def as_cell(text: str) -> str:
    """A text that no spreadsheet runs as a formula: a ' stands in front of one, which reading takes away."""
    return _FORMULA.sub(r"\1'\2", text)


def _records(
    path: Path, lines: Sequence[str], delimiter: str, skips: Skips, *, plain: bool
) -> Iterator[tuple[str, list[str]]]:
    """Place and cells of each record that holds something."""
    at, where = 0, f"{path}, line "
    while at < len(lines):
        text, at = lines[at], at + 1
        if not text:
            continue
        place = f"{where}{at}"
        if plain or '"' not in text:
            cells = text.split(delimiter)
        else:
            end, odd = at, text.count('"') % 2
            while odd and end < min(len(lines), at + _MOST_LINES):
                odd = (odd + lines[end].count('"')) % 2
                end += 1
            text = "\n".join([text, *lines[at:end]])
            try:
                (cells,) = csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True)
            except (csv.Error, ValueError):
                skips.leave_out(place, "its quotes are not closed, or stand inside of a cell")
                continue
            at = end
        cells = [cell.strip() for cell in cells]
        if any(cells) and decoded(text):
            yield place, cells
        elif any(cells):
            skips.leave_out(place, "not UTF-8 text: save it as UTF-8")
