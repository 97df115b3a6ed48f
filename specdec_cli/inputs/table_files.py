"""Tables (TSV, CSV, JSON or JSON lines): rows with their places, and the texts in their cells."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.names import ending
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import NONE, decoded, read_text
from specdec_cli.text import show, show_name

Cell = tuple[str, ...]  # what a cell holds: nothing, one text, or (in JSON) a list of them

MOST_ROWS: Final = 2_000_000
"""Most rows of a table: in memory a row takes some hundred times the bytes of the shortest one in a file."""
JSON: Final = (".json", ".jsonl", ".ndjson")
_SEPARATED: Final = (".tsv", ".tab", ".csv")
_OBJECTS: Final = 'Write a list of objects: [{"file": ..., "caption": ...}, ...], or an object on each line.'
_NO_TABLES: Final = {
    (".txt", ".list", ".lst", ".m3u"): "A list of paths is given on stdin: specdec batch - < FILE.",
    (".xlsx", ".xls", ".ods", ".numbers"): "Save it as CSV.",
    (".scp",): "docs/tables.md has a command that makes a table of a folder of Kaldi.",
}
_SEPARATOR: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MOST_LINES: Final = 100  # of a quoted cell
_OF_WHISPER: Final = ("start", "end", "text")  # the header of Whisper's TSV, whose times are whole milliseconds
_IN_SECONDS: Final = re.compile(r"-?\d+[.,:].*")  # not a time of Whisper's; empty and torn cells have none
_NOT_UTF_8: Final = "not UTF-8 text: save it as UTF-8"


class Row(NamedTuple):
    """One row: `place` is "clips.tsv, line 7" or "clips.json, item 3", `values` what each column holds in the file."""

    place: str
    values: Mapping[str, Any]

    def cell(self, column: str | None) -> Cell:
        """The texts in a cell, also "nan" and the like: none if it is empty or there is no such column."""
        value = None if column is None else self.values.get(column)
        items = value if isinstance(value, list) else [value]
        return tuple(text for item in items if isinstance(item, str | int | float) and (text := str(item).strip()))

    def single(self, column: str | None) -> str | None:
        """The one text in a cell; None if it is empty, holds one of `NONE`, or there is no column.

        Raises:
            ValueError: the cell holds several texts.
        """
        value = None if column is None else self.values.get(column)
        if value is None:
            return None
        if isinstance(value, str):
            text = value.strip()
        elif len(cell := self.cell(column)) > 1:
            raise ValueError(f"column {show_name(str(column))}: one value was expected, not {show(list(cell))}")
        else:
            text = "".join(cell)
        return None if text.casefold() in NONE else text


@dataclass(frozen=True, slots=True)
class Table:
    """All rows; `columns` in the order of the file.

    Attributes:
        unit_s: seconds per unit of times whose column names no unit.
        first_channel: number of the first channel.
    """

    path: Path
    rows: tuple[Row, ...]
    unit_s: float = 1.0
    first_channel: int = 1
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(chain.from_iterable(row.values for row in self.rows))
        object.__setattr__(self, "columns", tuple(names))


def read_table(path: Path, skips: Skips | None = None) -> Table:
    """Reads a table in the format that its ending names.

    Quotes of a TSV are ordinary characters, unless its first line begins with one. CSV may have semicolons, tabs or
    bars for commas, as a first line `sep=;` says, or the header. Empty rows, and columns without a name, are passed
    over. JSON is a list of objects, an object a line, or what a tool writes that transcribes (see `_said`); what an
    object in a cell holds becomes columns of its own, `audio.path`.

    Raises:
        ReferencesError: it cannot be read, or has no row; a row that cannot be read is left out, see `Skips`.
    """
    skips = Skips() if skips is None else skips
    kind = ending(path)
    if kind not in JSON + _SEPARATED:
        other = next((f"{way} " for endings, way in _NO_TABLES.items() if kind in endings), "")
        message = f"{path} cannot be read as a table: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=f"{other}A table is named .tsv, .csv, .json or .jsonl after what it holds.")
    table = _separated(path, kind, skips) if kind in _SEPARATED else _objects(path, skips)
    skips.require_some(table.rows, f"{path} has no rows.", "It needs the names of the columns, and a row per clip.")
    if table.unit_s != 1.0:
        skips.note(f"{path}: its times are read as milliseconds, by its layout (Whisper's TSV, AssemblyAI, FunASR)")
    return table


def _objects(path: Path, skips: Skips) -> Table:
    """The table of a JSON document or of JSON lines. Raises ReferencesError if none of it is JSON."""
    text = read_text(path, lenient=True)
    clean = decoded(text)
    try:
        tree = _parsed(text, clean=clean)
    except ValueError as error:
        if ending(path) == ".json" and not text.lstrip().startswith("{"):  # the first of several lines
            raise ReferencesError(f"{path}: not valid JSON: {error}.", hint=_OBJECTS) from error
        tree = {}
    items, unit_s, first_channel = _said(tree)
    if items is None and tree and "\n" in text.strip():  # one object over several lines
        items = [tree]
    if items is None:
        found = _lines(path, text, skips, clean=clean)
    else:
        found = ((f"{path}, item {number}", item) for number, item in enumerate(items, 1))
    rows = list[Row]()
    for place, value in found:
        if not isinstance(value, dict):
            skips.leave_out(place, f"an object was expected, not {show(value)}")
        elif not clean and not decoded(json.dumps(value, ensure_ascii=False)):
            skips.leave_out(place, _NOT_UTF_8)
        else:
            rows.append(_row_of(place, value))
    return Table(path, tuple(rows), unit_s, first_channel)


def _parsed(text: str, *, clean: bool) -> Any:
    """The JSON of a text. The fast parser refuses bytes that are not UTF-8; the other one keeps them."""
    try:
        return from_json(text) if clean else json.loads(text)
    except RecursionError as error:
        raise ValueError("recursion limit exceeded") from error


def _said(tree: Any) -> tuple[list[Any] | None, float, int]:
    """The segments of a document, seconds per unit of its times, and the number of its first channel.

    A list of objects is itself; None: an object that holds none, as a line of JSON lines does.
    """
    match tree[0] if isinstance(tree, list) and len(tree) == 1 else tree:
        case {"results": {"utterances": list(found)}}:  # Deepgram
            return found, 1.0, 0
        case {"sentence_info": list(found)} | {"utterances": list(found), "audio_duration": _}:  # FunASR; AssemblyAI
            return found, 0.001, 1
        case (
            {"segments": list(found)}  # Whisper, faster-whisper, WhisperX
            | {"chunks": list(found)}  # transformers
            | {"transcription": list(found)}  # whisper.cpp
            | {"utterances": list(found)}
            | {"output": {"diarization": list(found)}}  # pyannoteAI
            | {"results": {"audio_segments": list(found)}}  # Amazon Transcribe
        ):
            return found, 1.0, 1
    return tree if isinstance(tree, list) else None, 1.0, 1


def _lines(path: Path, text: str, skips: Skips, *, clean: bool) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, _parsed(line, clean=clean)
            except ValueError as error:
                reason = str(error).partition(" at line ")[0]
                skips.leave_out(place, f"not valid JSON: {reason}")


def _row_of(place: str, value: Mapping[str, Any]) -> Row:
    """The row of an object: an object inside it becomes columns like `audio.path`, a pair of times two columns."""
    if "timestamp" not in value and not any(isinstance(content, dict) for content in value.values()):
        return Row(place, value)
    flat: dict[str, Any] = {}
    for name, content in value.items():
        match name, content:
            case ("timestamp", [start, end]) | ("timestamps", {"from": start, "to": end}):  # transformers; whisper.cpp
                flat |= {"start": start, "end": end}
            case _, {**inner}:
                flat |= {f"{name}.{part}": below for part, below in inner.items()}
            case _:
                flat[name] = content
    return Row(place, flat)


def _separated(path: Path, kind: str, skips: Skips) -> Table:
    """The table of a text of separated cells; rows with more or fewer cells than columns are left out.

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
        return Table(path, ())
    (place, columns), *found = records
    while columns and not columns[-1]:
        columns.pop()
    if found and all(len(columns) < len(cells) and cells[len(columns)] and cells[0].isdecimal() for _, cells in found):
        columns.insert(0, "")  # R writes an index without a name for it
    named = [name for name in columns if name]
    if twice := next((name for name in named if named.count(name) > 1), None) if len({*named}) < len(named) else None:
        message = f"{place}: two columns are called {show_name(twice)}."
        raise ReferencesError(message, hint="Give every column a name of its own.")
    rows = list[Row]()
    for place, cells in found:
        if len(cells) < len(columns) or any(cells[len(columns) :]):
            skips.leave_out(place, f"{len(cells)} cells, but there are {len(columns)} columns")
        else:
            rows.append(Row(place, {name: cell for name, cell in zip(columns, cells, strict=False) if name}))
    whisper = kind == ".tsv" and tuple(columns) == _OF_WHISPER
    times = [row.values[name] for row in rows for name in _OF_WHISPER[:2]] if whisper else []
    whole = any(map(str.isdecimal, times)) and not any(map(_IN_SECONDS.fullmatch, times))
    return Table(path, tuple(rows), 0.001 if whole else 1.0)


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
            skips.leave_out(place, _NOT_UTF_8)
