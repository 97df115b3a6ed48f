"""A list of clips with ids, prompts and languages of their own: TSV, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specdec_cli.batch.inputs import common_folder
from specdec_cli.batch.items import Item, Key
from specdec_cli.config.problems import Problem, raise_if_any, show
from specdec_cli.config.settings import check_value
from specdec_cli.errors import ConfigError

FILE_COLUMNS: Final = ("file", "path", "audio")
"""Names that the column of the recordings may have."""

_DELIMITERS: Final = {".tsv": "\t", ".csv": ","}
_JSON: Final = frozenset({".jsonl", ".ndjson"})
_HINT: Final = "A row has file, and may have id, language and prompt; other columns are ignored."


@dataclass(frozen=True)
class Manifest:
    """The clips of a manifest.

    Attributes:
        rows: the clips by key, in order.
    """

    rows: Mapping[Key, Item]

    @property
    def base(self) -> str:
        """The deepest folder that holds all of its recordings."""
        return common_folder([os.path.dirname(key.path) for key in self.rows])

    def __iter__(self) -> Iterator[Item]:
        """The clips in order."""
        return iter(self.rows.values())

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads and checks all of a manifest. Relative paths in it are relative to its own folder.

        Raises:
            ConfigError: it cannot be read, is of another kind, or has wrong rows; names each line.
        """
        rows: dict[Key, Item] = {}
        lines: dict[Key, int] = {}
        ids: dict[str, int] = {}
        problems: list[Problem] = []
        for number, row in _rows(path):
            label = f"{path}:{number}"
            item, wrong = _item(row, label, path.parent)
            if item is None:
                problems += wrong
                continue
            key = item.key
            if item.id is not None and item.id in ids:
                problems.append(Problem(f"{label}: the id {show(item.id)} is that of line {ids[item.id]} too.", _HINT))
            elif item.id is None and key in rows:
                message = f"{label}: {item.file} is in line {lines[key]} already."
                problems.append(Problem(message, "Give the rows of one recording an id each, to tell them apart."))
            else:
                rows[key], lines[key] = item, number
                if item.id is not None:
                    ids[item.id] = number
        raise_if_any(problems)
        if not rows:
            raise ConfigError(f"The manifest {path} names no recordings.", hint=_HINT)
        return cls(rows)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number and fields of each row."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"The manifest {path} cannot be read: {reason}.", hint=_HINT) from error
    suffix = path.suffix.lower()
    if suffix in _JSON:
        yield from _json_rows(path, text)
    elif suffix in _DELIMITERS:
        yield from _table_rows(path, text, _DELIMITERS[suffix])
    else:
        raise ConfigError(
            f"The manifest {path} ends in {suffix or 'nothing'}.", hint="Name it .tsv, .csv or .jsonl, as it is made."
        )


def _table_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = reader.fieldnames or []
        if not set(FILE_COLUMNS) & set(names):
            raise ConfigError(
                f"{path}:1: no column is named {' or '.join(FILE_COLUMNS)}; there are {show(', '.join(names))}.",
                hint="The first line has the names of the columns.",
            )
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: {error}.", hint=_HINT) from error


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: {error}.", hint="Each line is one JSON object.") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: this is no JSON object.", hint=_HINT)
        yield number, row


def _item(row: Mapping[str, Any], label: str, folder: Path) -> tuple[Item | None, list[Problem]]:
    """The clip of a row, or what is wrong with it."""
    problems: list[Problem] = []
    given = {name: _text(row.get(name), name, label, problems) for name in (*FILE_COLUMNS, "id", "language", "prompt")}
    for name, setting in (("language", "prompt.language"), ("prompt", "prompt.text")):
        if given[name] is not None:
            _, problem = check_value(setting, given[name], label)
            problems += [problem] if problem else []
    file = next((given[name] for name in FILE_COLUMNS if given[name]), None)
    if file is None and not problems:
        problems.append(Problem(f"{label}: no recording is named.", _HINT))
    if problems or file is None:
        return None, problems
    path = file if os.path.isabs(file) else os.path.join(folder, file)
    return Item(path, given["id"], given["language"], given["prompt"]), []  # type: ignore[arg-type]


def _text(value: object, name: str, label: str, problems: list[Problem]) -> str | None:
    """A field as text; an empty one is None."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        problems.append(Problem(f"{label}: {name} must be text, not {show(value)}.", _HINT))
        return None
    text = str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        problems.append(Problem(f"{label}: {name} is not valid Unicode text.", _HINT))
        return None
    return text
