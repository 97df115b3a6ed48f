"""Recordings inside the rows of Parquet and Arrow files, as data sets of Hugging Face keep them: `file.parquet#12`."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Any, Final

from specdec_cli.errors import AudioDecodeError, AudioNotFoundError, ConfigError, ReferencesError, install

COLUMNS: Final = ("audio", "speech", "wav")  # names that a column of recordings may have
_EMBEDDED: Final = re.compile(r"(.+\.(?:parquet|arrow))#(\d+)", re.DOTALL)
MOST_BYTES: Final = 512 << 20
"""Of a column, unpacked; a larger one has at most `_MOST_RATIO` times the bytes that it takes packed."""
_MOST_RATIO: Final = 100  # recordings reach 20
_ROWS: Final = 8  # that are read at a time
_TURN: Final = threading.Lock()  # a few rows are in memory at a time


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


class AudioTable:
    """A Parquet or Arrow file, read a few rows at a time. Raises ConfigError if that fails, or without pyarrow.

    A page of a kilobyte may unpack to gigabytes, so that no group of rows is read as a whole.
    """

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            message = f"{path} needs pyarrow, which is not installed."
            raise ConfigError(message, hint=f"Install it: {install('datasets')}") from error
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ReferencesError(f"{path} is no regular file.", hint="Save what a pipe delivers to a file first.")
        self._path, self._broken = path, (OSError, pyarrow.ArrowException)
        with self._readable():
            if path.suffix == ".arrow":
                self.names: list[str] = _reader(path).schema.names  # of its columns
                self._batches: Callable[[list[str]], Iterable[Any]] = lambda columns: _mapped(path, columns)
            else:
                file = parquet.ParquetFile(str(path))
                _require_plausible(path, file.metadata)
                self.names = file.schema_arrow.names
                self._batches = lambda columns: file.iter_batches(_ROWS, columns=columns, use_threads=False)
        self._at = 0  # first row of the batch under way
        self._cells: Any = None  # its recordings
        self._rest: Iterator[Any] | None = None  # the batches behind it

    def rows(self, audio: str, columns: Sequence[str]) -> Iterator[tuple[bool, str | None, dict[str, Any]]]:
        """Of each row whether its recording is in it, its path or None, and the cells of the columns."""
        for batch in self._read([audio, *columns]):
            for at, row in enumerate(batch.select(list(columns)).to_pylist() or [{}] * batch.num_rows):
                cell = batch.column(audio)[at]
                fields = {field.name for field in cell.type} if hasattr(cell, "keys") else set()
                if not fields:
                    yield False, cell.as_py() if isinstance(cell.as_py(), str) else None, row
                    continue
                held = "bytes" in fields and cell["bytes"].is_valid
                yield held, cell["path"].as_py() if "path" in fields else None, row

    def recording(self, row: int) -> bytes | None:
        """The bytes of the recording in a row. Raises IndexError where there is no such row."""
        if self._rest is None or row < self._at:
            audio = next(name for name in COLUMNS if name in self.names)
            self._at, self._cells, self._rest = 0, (), (batch.column(0) for batch in self._read([audio]))
        assert self._rest is not None
        while row >= self._at + len(self._cells):
            self._at += len(self._cells)
            self._cells = next(self._rest, None)
            if self._cells is None:
                self._rest = None
                raise IndexError(row)
        cell = self._cells[row - self._at].as_py()
        return cell.get("bytes") if isinstance(cell, dict) else None

    def _read(self, columns: list[str]) -> Iterator[Any]:
        with self._readable():
            yield from self._batches(columns)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except self._broken as error:
            detail = " ".join(str(error).split())[:200]
            raise ReferencesError(f"{self._path} cannot be read: {detail}.", hint="Is it complete?") from error


def _require_plausible(path: Path, metadata: Any) -> None:
    """Refuses columns that unpack to far more than recordings do: a page of up to 2 GiB is unpacked as a whole."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.total_uncompressed_size > max(MOST_BYTES, _MOST_RATIO * column.total_compressed_size):
                packed, unpacked = column.total_compressed_size, column.total_uncompressed_size
                message = f"{path}: {packed:,} bytes would take {unpacked:,} unpacked."
                raise ReferencesError(message, hint="Write the recordings to files of their own.")


def _mapped(path: Path, columns: list[str]) -> Iterator[Any]:
    """A few rows of an Arrow file or stream at a time, which stay in the mapped file unless it is compressed."""
    reader = _reader(path)
    batches = map(reader.get_batch, range(reader.num_record_batches)) if hasattr(reader, "get_batch") else reader
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.select(columns).slice(start, _ROWS)


def _reader(path: Path) -> Any:
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_file(source)


open_table = lru_cache(maxsize=4)(AudioTable)
"""A table, of which a few stay open; raises as `AudioTable` does."""
