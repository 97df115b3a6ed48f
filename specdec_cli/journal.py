"""Outputs that a later run resumes: whole JSON lines, made with the same settings, appended by one run at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from filelock import FileLock, Timeout

from specdec_cli.errors import ConfigError, SpecdecError, TranscriptError, WrongFileError
from specdec_cli.regular_files import open_regular, read_at
from specdec_cli.targets import LONGEST, Kind, require_ours, writing
from specdec_cli.text import show

Change = tuple[str, object, object]
"""A setting that differs: its name, the value there and the value here."""

Entry = TypeVar("Entry")
Accepts = Callable[[Entry], Iterable[Change] | None]
"""From an entry to each setting in which it differs from the run's; None for an entry that the run leaves alone."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line of a journal."""

    number: int  # 1-based
    offset: int  # of its first byte in the file
    raw: bytes  # with the newline

    @property
    def torn(self) -> bool:
        """Whether it is only the beginning of a line, or zeros that a power cut left."""
        if self.raw.endswith(b"\n"):
            return False
        try:
            return not isinstance(json.loads(self.raw), dict)
        except (ValueError, RecursionError):
            return True


class Journal(Generic[Entry]):
    """The output of a run, which a later run resumes. No other run writes it until it is closed.

    Opening it reads its lines, and cuts off half a line at the end. A subclass parses a line (`parsed`), and takes the
    lines of the run (`take`). Use it as a context manager.

    Args:
        path: the file, created with the first line. None: nothing is kept.
        kind: of the file.
        accepts: see `Accepts`. None: nothing is read, since `clear` will drop all lines.
        anew: whether the command has --overwrite, for hints.

    Raises:
        TranscriptError: another run is writing the file, its folder cannot be written, a line is damaged, or the file
            ends in something else.
        ConfigError: a line was made with other settings.
    """

    def __init__(self, path: Path | None, kind: Kind, accepts: Accepts[Entry] | None, *, anew: bool = True) -> None:
        self._anew = ", name a new file, or start anew: --overwrite" if anew else ", or name a new file"
        self.path, self._kind = Path(os.devnull) if path is None else path, kind
        self._accepts = accepts
        self._made_by: dict[str, tuple[int, Entry]] = {}  # models -> the first entry that they made, and its number
        self._lock = None if path is None else _locked(path)
        self._new = False  # whether the first line creates the file, which must not exist by then
        try:
            self._new = path is not None and not require_ours(path, kind)
            if accepts is not None:
                self._read()
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()

    def parsed(self, line: StoredLine) -> Entry:
        """The entry in a line. Raises TranscriptError, with the line's number, if it is damaged."""
        raise NotImplementedError

    def take(self, entry: Entry) -> str | None:
        """Takes an entry of the run. Returns a name for its models; None if no models were loaded for it."""
        raise NotImplementedError

    def require(self, changes: Accepts[Entry]) -> None:
        """Checks the entries that were read again, once the models are loaded. Raises ConfigError as opening does."""
        for number, entry in self._made_by.values():
            self._refuse(number, changes(entry))

    def append(self, line: str) -> None:
        """Appends a line, whole or not at all, whatever ends the process. It is on the disk when this returns.

        A last line without a newline gets one first. Raises TranscriptError if the line cannot be written.
        """
        data = f"{line}\n".encode()
        real, mode = os.path.realpath(self.path), "x+b" if self._new else "a+b"
        with writing(self.path), open(real, mode, buffering=0) as file:
            self._new = False
            size = file.seek(0, os.SEEK_END)
            if size and read_at(file, 1, size - 1) != b"\n":
                data = b"\n" + data
            written = file.write(data)
            if written != len(data):
                file.truncate(size)
                raise OSError(f"only {written} of {len(data)} bytes could be written")
            if self._lock is not None:
                os.fsync(file.fileno())

    def clear(self) -> None:
        """Drops all lines."""
        self._cut(0)

    def _read(self) -> None:
        for line in self._lines():
            entry = self.parsed(line)
            changes = self._accepts(entry) if self._accepts is not None else ()
            if changes is None:
                continue
            self._refuse(line.number, changes)
            if (models := self.take(entry)) is not None:
                self._made_by.setdefault(models, (line.number, entry))

    def _refuse(self, number: int, changes: Iterable[Change] | None) -> None:
        """Refuses a line that was made with other settings or models than this run's."""
        if listed := "; ".join(f"{name} was {show(there)} and is {show(here)}" for name, there, here in changes or ()):
            hint = f"Give the same settings{self._anew}."
            raise ConfigError(f"{self.path}:{number} was made with other settings: {listed}.", hint=hint)

    def _lines(self) -> Iterator[StoredLine]:
        """The lines in order, without empty ones; half a line at the end is cut off.

        Raises TranscriptError if the file cannot be read, or ends in something else, which is left alone.
        """
        for line in read_lines(self.path) if self.path.is_file() else ():
            if not line.torn:
                yield line
                continue
            text = line.raw.strip(b"\0\r\n ")
            if text and not self._kind.left_half(text):
                hint = "Name a new file, or one that specdec wrote."
                raise WrongFileError(f"{self.path} ends in something other than {self._kind.name}.", hint=hint)
            self._cut(line.offset)

    def _cut(self, size: int) -> None:
        if self.path.is_file():
            with writing(self.path):
                os.truncate(self.path, size)

    def _close(self) -> None:
        if self._lock is not None:
            with suppress(OSError):  # Windows deletes no open file, and filelock deletes it there
                Path(self._lock.lock_file).unlink()
            self._lock.release()


class Watch(Protocol):
    """Shows the steps of a run as they are made, and the recordings that cannot be used."""

    def begin(self, steps: int) -> None: ...
    def step(self, what: str) -> None: ...
    def advance(self) -> None: ...
    def failed(self, file: str, error: SpecdecError) -> None: ...


def read_lines(path: Path, offset: int = 0) -> Iterator[StoredLine]:
    """The lines of a file from the offset of a line on, numbered from there, without empty ones. Needs no lock.

    Raises TranscriptError if the file cannot be read, or if a line is longer than `LONGEST`, as in a recording.
    """
    hint = "Name a file that `specdec caption --output` or `specdec batch` wrote."
    try:
        with open_regular(path) as file:
            file.seek(offset)
            for number, raw in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
                if len(raw) == LONGEST:
                    raise WrongFileError(f"{path}:{number} is longer than {LONGEST >> 20} MiB.", hint=hint)
                if raw.strip():
                    yield StoredLine(number, offset, raw)
                offset += len(raw)
    except OSError as error:
        raise WrongFileError(f"The transcript {path} cannot be read: {error.strerror or error}.", hint=hint) from error


def lock_file(path: Path) -> Path:
    """The file in the same folder that is locked while a journal is open. Its name is short, however long `path` is."""
    real = Path(os.path.realpath(path))
    return real.with_name(f".specdec-{hashlib.sha256(os.fsencode(real.name)).hexdigest()[:16]}.lock")


def _locked(path: Path) -> FileLock:
    lock = FileLock(lock_file(path), timeout=0, thread_local=False)
    with writing(path):
        if not lock_file(path).parent.is_dir():  # filelock would create the folder
            raise FileNotFoundError("its folder does not exist: create it first")
        try:
            lock.acquire()
        except Timeout as error:
            hint = "Wait until it has ended, or name another file."
            raise TranscriptError(f"{path} is being written by another run.", hint=hint) from error
    return lock
