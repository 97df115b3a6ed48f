"""JSON lines on disk that a later run resumes: whole lines, appended by one run at a time, and a torn end repaired."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from filelock import FileLock, Timeout

from specdec_cli.config.problems import show
from specdec_cli.errors import ConfigError, SpecdecError, TranscriptError
from specdec_cli.targets import Kind, writing

PATIENCE_S = 10.0
"""How long a single append waits for its turn, seconds; a batch holds its file for hours."""

_ANOTHER_FILE: Final = "Name a new file, or one that specdec wrote."


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line of a store.

    Attributes:
        number: 1-based, in the file.
        offset: of its first byte in the file.
        raw: its bytes, with the newline if it has one.
    """

    number: int
    offset: int
    raw: bytes

    @property
    def whole(self) -> bool:
        """Whether it ends in a newline."""
        return self.raw.endswith(b"\n")


class Store:
    """A file of JSON lines, open and locked until it is closed. Use it as a context manager.

    Args:
        path: the file; created if it does not exist.
        kind: what its lines are.
        wait_s: how long to wait for another that holds it, seconds.

    Raises:
        TranscriptError: another run is writing it, or it cannot be written.
    """

    def __init__(self, path: Path, kind: Kind, *, wait_s: float = 0.0) -> None:
        self.path, self._kind = path, kind
        self._lock = _locked(path, wait_s)
        try:
            self._created = not os.path.exists(path)
            with writing(path):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the file; one that this run created and wrote nothing to is removed."""
        try:
            if self._created and not os.fstat(self._descriptor).st_size:
                self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
        finally:
            self._release()

    def lines(self) -> Iterator[StoredLine]:
        """The lines in order; empty ones are left out."""
        return read_lines(self.path)

    def append(self, lines: Iterable[str]) -> None:
        """Appends lines, all of them or none, whatever ends the process; a last line without a newline gets one first.

        Raises:
            TranscriptError: the disk is full, for example.
        """
        data = "".join(f"{line}\n" for line in lines).encode("utf-8")
        with writing(self.path):
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            written = os.write(self._descriptor, data)
            if written != len(data):
                os.ftruncate(self._descriptor, size)
                raise OSError(f"only {written} of {len(data)} bytes could be written")

    def mend(self) -> bytes:
        """Ends a last line that only lacks its newline, or cuts off half a line, or zeros that a crash left instead.

        Returns:
            What was cut off.

        Raises:
            TranscriptError: the file ends in something else, which is left alone; or it cannot be written.
        """
        start, tail = _last_line(self._descriptor)
        if not tail:
            return b""
        text = tail.strip(b"\0\r\n ")
        if text and not self._kind.ours(text):
            raise TranscriptError(f"{self.path} ends in something else than {self._kind.name}.", hint=_ANOTHER_FILE)
        if _is_object(tail):
            with writing(self.path):
                os.write(self._descriptor, b"\n")
            return b""
        self.cut(start)
        return tail

    def cut(self, size: int = 0) -> None:
        """Drops what stands behind the first `size` bytes."""
        with writing(self.path):
            os.ftruncate(self._descriptor, size)

    def compact(self, offsets: Iterable[int]) -> None:
        """Writes the file anew with the lines at `offsets` alone; the new file takes the old one's place at once."""
        draft = beside(self.path, "new")
        with writing(self.path):
            draft.unlink(missing_ok=True)  # of a run that was killed
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o644)
            try:
                draft.chmod(os.fstat(self._descriptor).st_mode & 0o7777)
                with self.path.open("rb") as old, os.fdopen(descriptor, "wb", closefd=False) as file:
                    for offset in offsets:
                        old.seek(offset)
                        file.write(old.readline())
                os.fsync(descriptor)
                draft.replace(os.path.realpath(self.path))
            except BaseException:
                os.close(descriptor)
                draft.unlink(missing_ok=True)
                raise
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _release(self) -> None:
        if self._lock is not None:
            Path(self._lock.lock_file).unlink(missing_ok=True)  # whoever waits for it finds out, and makes a new one
            self._lock.release()


class Watch(Protocol):
    """Shows the progress and the errors of a run in steps."""

    def begin(self, steps: int) -> None:
        """There are so many steps to take."""
        ...

    def step(self, what: str) -> None:
        """A step is about to be taken."""
        ...

    def advance(self) -> None:
        """It was taken, or it turned out that it cannot be."""
        ...

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording cannot be used."""
        ...


class Journal(ABC):
    """What a run has made so far: in memory, and in a store from which a later run resumes. A context manager.

    Args:
        path: file that is read and appended to, held until the journal is closed; None: memory alone.
        kind: what its lines are. A last line that a killed process left half-written is cut off.
        read: whether to read what the file holds.

    Raises:
        TranscriptError: the file cannot be read or written, holds something else, or another run is writing it.
    """

    def __init__(self, path: Path | None, kind: Kind, *, read: bool = True) -> None:
        self._store = None if path is None else Store(path, kind)
        if self._store is not None and read:
            with ExitStack() as on_error:
                on_error.push(self._store)
                self._store.mend()
                self._read(self._store)
                on_error.pop_all()

    @abstractmethod
    def _read(self, store: Store) -> None:
        """Takes in the lines of a store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.__exit__(None, None, None)

    def _append(self, line: str) -> None:
        if self._store is not None:
            self._store.append([line])


def read_lines(path: Path, offset: int = 0) -> Iterator[StoredLine]:
    """The lines of a store that need not be held, in order; empty ones are left out.

    Args:
        path: the store.
        offset: where a line begins, bytes; lines are counted from there.
    """
    with path.open("rb") as file:
        file.seek(offset)
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield StoredLine(number, offset, raw)
            offset += len(raw)


def append_line(path: Path, kind: Kind, text: str) -> None:
    """Appends one line to a file that is not held, whole or not at all; what it held stays as it was.

    Raises:
        TranscriptError: another run holds it, it cannot be written, or the disk is full.
    """
    with Store(path, kind, wait_s=PATIENCE_S) as store:
        store.append([text])


def made_otherwise(path: Path, number: int, changes: Iterable[tuple[str, object, object]]) -> ConfigError:
    """The refusal to mix a line with those of a run that has other settings or models.

    Args:
        path: the store.
        number: of the line.
        changes: name, value there and value here of whatever differs.
    """
    listed = "; ".join(f"{name} was {_shown(there)} and is {_shown(here)}" for name, there, here in changes)
    return ConfigError(
        f"{path}:{number} was made with other settings: {listed}.",
        hint="Give the same settings, name a new file, or start anew (--overwrite, where the command has it).",
    )


def _shown(value: object) -> str:
    return ascii(value)[:200] if isinstance(value, dict) else show(value)


def _locked(path: Path, wait_s: float) -> FileLock | None:
    """The lock of a file, held; None for a device or a pipe, which needs none."""
    if os.path.exists(path) and not os.path.isfile(path):
        return None
    lock = FileLock(beside(path, "lock"), timeout=wait_s, thread_local=False)
    with writing(path):
        if not Path(lock.lock_file).parent.is_dir():  # which the lock would create
            raise FileNotFoundError("its folder does not exist")
        try:
            lock.acquire(poll_interval=0.005)
        except Timeout as error:
            raise TranscriptError(
                f"{path} is being written by another run.", hint="Wait until it has ended, or name another file."
            ) from error
    return lock


def beside(path: Path, ending: str) -> Path:
    """A file of this store's own in the same folder; its name is short however long the store's is."""
    real = Path(os.path.realpath(path))
    return real.with_name(f".specdec-{hashlib.sha256(os.fsencode(real.name)).hexdigest()[:16]}.{ending}")


def _is_object(raw: bytes) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False


def _last_line(descriptor: int) -> tuple[int, bytes]:
    """Where the last line begins that does not end in a newline, bytes, and what it holds; nothing where all end."""
    at = os.fstat(descriptor).st_size
    tail = b""
    while at > 0:
        length = min(1 << 16, at)
        at -= length
        block = os.pread(descriptor, length, at)
        end = block.rfind(b"\n") + 1
        tail = block[end:] + tail
        if end:
            return at + end, tail
    return 0, tail
