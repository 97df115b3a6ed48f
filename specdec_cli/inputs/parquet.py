"""Data sets of Hugging Face with the recordings in them: Parquet and Arrow files, or a folder of such.

A recording inside a file is called `file.parquet#12`, after its row; see `inputs.embedded`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdec_cli.config.problems import show
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.corpora import Listed, item
from specdec_cli.inputs.embedded import COLUMNS, open_table
from specdec_cli.inputs.table_files import FILES, SPEAKERS, TEXTS, one_line


def read(path: Path) -> Iterator[Listed]:
    """The rows of a file, or of all files of a folder and the folders inside it.

    Raises:
        ReferencesError: there is no such file, it cannot be read, or it has no recordings.
        ConfigError: pyarrow is not installed.
    """
    files = [path]
    if path.is_dir():
        files = sorted(found for found in path.rglob("*") if found.suffix in (".parquet", ".arrow"))
    if not files:
        hint = "Name a folder with wav.scp, or with .parquet or .arrow files of a data set."
        raise ReferencesError(f"{path} has no list of recordings.", hint=hint)
    for file in files:
        yield from _rows(file)


def _rows(path: Path) -> Iterator[Listed]:
    table = open_table(path)
    names = table.names
    audio = next((name for name in (*COLUMNS, *FILES) if name in names), None)
    if audio is None:
        message = f"{path} has no column {' or '.join(COLUMNS)}; there are {show(', '.join(names))}."
        raise ReferencesError(message, hint="Each row holds a recording, or the path of one.")
    columns = {
        name: next((column for column in wanted if column in names), None)
        for name, wanted in (("id", ("id",)), ("speaker", SPEAKERS), ("text", TEXTS))
    }
    wanted = [column for column in columns.values() if column is not None]
    for number, (has_bytes, file, row) in enumerate(table.rows(audio, wanted)):
        place = f"{path}, row {number}"
        known: dict[str, Any] = {
            name: None if column is None else one_line(row[column]) for name, column in columns.items()
        }
        if has_bytes:
            yield place, item(path, f"{path.absolute()}#{number}", **known)
        elif file:
            yield place, item(path, file, **known)
        else:
            raise ReferencesError(f"{place}: no recording, and no path of one.", hint="Drop that row.")
