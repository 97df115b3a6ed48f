"""The calls that change files: watched, made to fail one by one, or the last ones of a process that is killed."""

import errno
import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

fcntl = pytest.importorskip("fcntl", reason="needs POSIX")


SHORT = errno.EFBIG
"""Number of the error by which half of a write succeeds, as that of a disk that gets full does."""


class Killed(BaseException):
    """The process is gone: nothing that it does from here on has an effect."""


class Disk:
    """What a process does to the files of a folder, but for recordings.

    Attributes:
        calls: names of the calls so far.
        fault: number of a call -> what it raises; None: nothing.
        dead: whether the process was killed.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fault: Callable[[int], BaseException | None] = lambda _: None
        self.dead, self._folder, self._synced = False, str(folder), dict[int, int]()
        self._fsync, self._unlink = os.fsync, os.unlink
        for name in ("open", "link", "replace", "mkdir", "chmod"):
            patch.setattr(os, name, self._counted(name, getattr(os, name)))
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "unlink", self._remove)
        opened = io.open
        watched = self._file_class()

        def open_(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            if not self._inside(file):
                return opened(file, mode, *more, **named)
            if "x" in mode:
                self.call("open")
                return io.BufferedWriter(watched(file, mode))
            self.call("open")
            return opened(file, mode, *more, **named)

        patch.setattr(io, "open", open_)
        for module in ("journal", "written"):
            patch.setattr(f"specdec_cli.{module}.FileIO", watched)

    def call(self, name: str) -> None:
        """Counts a call, which may fail."""
        if self.dead:
            raise Killed
        self.calls.append(name)
        if (error := self.fault(len(self.calls))) is not None:
            self.dead = isinstance(error, Killed)
            raise error

    def synced(self, path: Path) -> bool:
        """Whether all that a file holds is on the disk."""
        status = path.stat()
        return self._synced.get(status.st_ino) == status.st_size

    def _inside(self, path: object) -> bool:
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        name = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        return name.startswith(self._folder) and not name.endswith(".wav")

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            if self._inside(path):
                self.call(name)
            return real(path, *more, **named)

        return call

    def _sync(self, descriptor: int) -> None:
        self.call("fsync")
        status = os.fstat(descriptor)
        self._synced[status.st_ino] = status.st_size  # nothing is synced in truth, which would take long

    def _remove(self, path: Any, **named: Any) -> None:
        if not self._inside(path):
            self._unlink(path, **named)
        elif not self.dead:  # it is asked for in `finally`, which a process that was killed does not reach
            if str(path).endswith(".lock"):
                _require_held(path)
            if os.path.lexists(path):
                with suppress(Killed):
                    self.call("unlink")
            if not self.dead:
                self._unlink(path, **named)

    def _file_class(disk) -> type[io.FileIO]:
        class Watched(io.FileIO):
            """A file whose writes fail; half of what is written may be there then."""

            def write(self, data: Any) -> int:
                try:
                    disk.call("write")
                except OSError as error:
                    if error.errno != SHORT:
                        raise
                    return super().write(bytes(data)[: len(data) // 2])
                except Killed:
                    if disk.calls[-1:] == ["write"]:
                        super().write(bytes(data)[: len(data) // 2])
                        disk.calls.append("end")
                    raise
                return super().write(data)

            def truncate(self, size: int | None = None) -> int:
                disk.call("truncate")
                return super().truncate(size)

        return Watched


def _require_held(path: object) -> None:
    """The file of a lock is deleted while the lock is held: else two runs could hold one each."""
    with open(str(path), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    raise AssertionError(f"{path} is deleted after its lock was released")
