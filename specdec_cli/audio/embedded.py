"""Recordings inside the rows of Parquet and Arrow files, as data sets of Hugging Face keep them: `file.parquet#12`."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from specdec_cli.errors import AudioDecodeError, AudioNotFoundError, ConfigError, ReferencesError

COLUMNS: Final = ("audio", "speech", "wav")  # names that a column of recordings may have
_EMBEDDED: Final = re.compile(r"(.+\.(?:parquet|arrow))#(\d+)", re.DOTALL)
_TURN: Final = threading.Lock()  # one group of rows is in memory at a time


def find_embedded(path: str) -> tuple[str, int] | None:
    """The table and the row of a recording that is in one; None for a file of its own."""
    found = None if os.path.lexists(path) else _EMBEDDED.fullmatch(path)
    return (found[1], int(found[2])) if found and os.path.isfile(found[1]) else None


def open_embedded(table: str, row: int) -> FileIO:
    """The bytes of a recording as an open file without a name; errors as in `files.opened`."""
    try:
        with _TURN:
            data = open_table(Path(table)).recording(row)
    except ConfigError as error:
        raise AudioNotFoundError(error.message, hint=error.hint) from error
    except IndexError:
        raise AudioNotFoundError(f"{table} has no row {row}.", hint="Has it changed?") from None
    if not data:
        raise AudioDecodeError(f"{table}, row {row}, holds no recording.", hint="Drop that row.")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return FileIO(os.dup(file.fileno()), "rb")


class Table:
    """A Parquet or Arrow file, read a group of rows at a time. Raises ConfigError if that fails, or without pyarrow."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            message = f"{path} needs pyarrow, which is not installed."
            raise ConfigError(message, hint="pip install 'specdec-cli[datasets]'") from error
        try:
            if path.suffix == ".arrow":
                table = _mapped(path)
                self.names: list[str] = table.column_names  # of its columns
                self._groups, sizes = [table.select], [table.num_rows]
            else:
                file = parquet.ParquetFile(str(path))
                self.names, groups = file.schema_arrow.names, range(file.num_row_groups)
                self._groups = [partial(file.read_row_group, group) for group in groups]
                sizes = [file.metadata.row_group(group).num_rows for group in groups]
        except (OSError, pyarrow.ArrowException) as error:
            detail = " ".join(str(error).split())[:200]
            raise ReferencesError(f"{path} cannot be read: {detail}.", hint="Is it complete?") from error
        self._first = [0, *accumulate(sizes)]  # row of each group
        self._last: tuple[int, Any] = -1, None  # a group, and its recordings

    def rows(self, audio: str, columns: Sequence[str]) -> Iterator[tuple[bool, str | None, dict[str, Any]]]:
        """Of each row whether its recording is in it, its path or None, and the cells of the columns."""
        for group in self._groups:
            table = group([audio, *columns])
            for at, row in enumerate(table.select(list(columns)).to_pylist() or [{}] * table.num_rows):
                cell = table.column(audio)[at]
                fields = {field.name for field in cell.type} if hasattr(cell, "keys") else set()
                if not fields:
                    yield False, cell.as_py() if isinstance(cell.as_py(), str) else None, row
                    continue
                held = "bytes" in fields and cell["bytes"].is_valid
                yield held, cell["path"].as_py() if "path" in fields else None, row

    def recording(self, row: int) -> bytes | None:
        """The bytes of the recording in a row. Raises IndexError where there is no such row."""
        group = bisect_right(self._first, row) - 1
        if self._last[0] != group:
            audio = next(name for name in COLUMNS if name in self.names)
            self._last = group, self._groups[group]([audio]).column(audio)
        cell = self._last[1][row - self._first[group]].as_py()
        return cell.get("bytes") if isinstance(cell, dict) else None


def _mapped(path: Path) -> Any:
    """The table of an Arrow file or stream, which stays in the mapped file: nothing is read before it is looked at."""
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_file(source).read_all()


open_table = lru_cache(maxsize=4)(Table)
"""A table, of which a few stay open; raises as `Table` does."""
