"""Outputs that a later run resumes: whole JSON lines, made with the same settings, appended by one run at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from filelock import FileLock, Timeout

from specdec_cli import interrupts
from specdec_cli.errors import ConfigError, SpecdecError, TranscriptError, WrongFileError
from specdec_cli.regular_files import open_regular, read_at
from specdec_cli.targets import LONGEST, FileKind, Targets, replace, writing
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
        accepts: see `Accepts`.
        overwrite: whether the first line takes the place of whatever the file holds, which is not read.

    Raises:
        TranscriptError: another run is writing the file, its folder cannot be written, a line is damaged, or the file
            ends in something else.
        ConfigError: a line was made with other settings.
    """

    def __init__(self, path: Path | None, kind: FileKind, accepts: Accepts[Entry], *, overwrite: bool = False) -> None:
        self.path, self._kind = Path(os.devnull) if path is None else path, kind
        self._accepts = accepts
        self._made_by: dict[str, tuple[int, Entry]] = {}  # models -> the first entry that they made, and its number
        self._file: FileIO | None = None  # None: nothing is kept, or the first line makes the file
        self._lock = None if path is None else _Lock(path)
        self._new = True  # whether the first line makes a file that was not there
        try:
            if path is not None:
                self._new = Targets(overwrite=overwrite).require(path, kind) is None
                if not self._new and not overwrite:
                    self._open()
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

        A last line without a newline gets one first. Raises TranscriptError if the line cannot be written, or if the
        file or its lock was moved, deleted or replaced since the run began.
        """
        if self._lock is None:
            return
        data = f"{line}\n".encode()
        with writing(self.path):
            self._lock.require()
            if self._file is None:
                replace(self.path, data, durable=True, new=self._new, draft=self._lock.draft)
                self._open()
                return
            _require_same(self._file, self.path)
            size = self._file.seek(0, os.SEEK_END)
            if size and read_at(self._file, 1, size - 1) != b"\n":
                data = b"\n" + data
            written = self._file.write(data)
            if written != len(data):
                self._file.truncate(size)
                raise OSError(f"only {written} of {len(data)} bytes could be written")
            os.fsync(self._file.fileno())

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Puts other lines in the place of all, whole or not at all; errors as in `append`."""
        if self._lock is not None and self._file is not None:
            with writing(self.path):
                self._lock.require()
                _require_same(self._file, self.path)
            self._file.close()  # Windows replaces no open file
            try:
                replace(self.path, lines, durable=True, draft=self._lock.draft)
            finally:
                self._open()

    def _open(self) -> None:
        with writing(self.path):
            self._file = FileIO(os.path.realpath(self.path), "ab+")

    def _read(self) -> None:
        for line in self._lines():
            entry = self.parsed(line)
            changes = self._accepts(entry)
            if changes is None:
                continue
            self._refuse(line.number, changes)
            if (models := self.take(entry)) is not None:
                self._made_by.setdefault(models, (line.number, entry))

    def _refuse(self, number: int, changes: Iterable[Change] | None) -> None:
        """Refuses a line that was made with other settings or models than this run's."""
        if listed := "; ".join(f"{name} was {show(there)} and is {show(here)}" for name, there, here in changes or ()):
            hint = "Give the same settings, name a new file, or start anew: --overwrite."
            raise ConfigError(f"{self.path}:{number} was made with other settings: {listed}.", hint=hint)

    def _lines(self) -> Iterator[StoredLine]:
        """The lines in order, without empty ones; half a line at the end is cut off.

        Raises TranscriptError if the file cannot be read, or ends in something else, which is left alone.
        """
        if self._file is None:
            return
        for line in read_lines(self.path):
            if not line.torn:
                yield line
                continue
            text = line.raw.strip(b"\0\r\n ")
            if text and not self._kind.left_half(text):
                hint = "Name a new file, or one that specdec wrote."
                raise WrongFileError(f"{self.path} ends in something other than {self._kind.name}.", hint=hint)
            with writing(self.path):
                self._file.truncate(line.offset)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
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
                interrupts.check()
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


class _Lock:
    """The lock of an output. It holds a file of its own; a run whose file is deleted may write no more.

    `draft` is the name of a file that only the lock's holder writes: what a killed run left there is gone.
    """

    def __init__(self, path: Path) -> None:
        self._file = lock_file(path)
        self.draft = self._file.with_suffix(".draft")
        self._lock = FileLock(self._file, timeout=0, thread_local=False)
        with writing(path):
            if not self._file.parent.is_dir():  # filelock would create the folder
                raise FileNotFoundError("its folder does not exist: create it first")
            try:
                self._lock.acquire()
                self._held = os.stat(self._file)
                self.draft.unlink(missing_ok=True)
            except Timeout as error:
                hint = "Wait until it has ended, or name another file."
                raise TranscriptError(f"{path} is being written by another run.", hint=hint) from error

    def require(self) -> None:
        """Raises OSError if another run may hold the lock, since its file is another one by now."""
        if not _is_at(self._held, self._file):
            raise OSError(f"its lock {self._file.name} was deleted during the run, so another run may write it")

    def release(self) -> None:
        with suppress(OSError):  # Windows deletes no open file, and filelock deletes it there
            if _is_at(self._held, self._file):
                self._file.unlink()
        self._lock.release()


def _require_same(file: FileIO, path: Path) -> None:
    """Raises OSError if an open file is not the one of that name any more."""
    if not _is_at(os.fstat(file.fileno()), path):
        raise OSError("it was moved, deleted or replaced during the run; its lines are in the file that it was")


def _is_at(status: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False
