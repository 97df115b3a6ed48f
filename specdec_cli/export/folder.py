"""A folder of exported files: what specdec wrote there is brought up to date, all else is left alone."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli.errors import SpecdecError, TranscriptError
from specdec_cli.targets import replace, writing

INDEX: Final = ".specdec-exports"
"""File in a folder of exports: a digest of whatever specdec writes there, a line each, added before it is written."""

_HEAD: Final = "specdec exports"
_LONGEST: Final = 255  # bytes of a file's name


@dataclass(slots=True)
class Written:
    """How many files were written, or found as they should be, and what was not, and why."""

    count: int = 0
    problems: list[SpecdecError] = field(default_factory=list)


class Folder:
    """A folder that files are exported to, by several runs at once if need be.

    Args:
        path: created with the first file.
        option: that names it, for hints.

    Raises:
        TranscriptError: its index cannot be read.
    """

    def __init__(self, path: Path, option: str) -> None:
        self.path, self._option = path, option
        self._ours = self._read_index()
        self.result = Written()

    def put(self, name: str, content: str | bytes) -> None:
        """Writes a file, whose name may begin with folders; one of others, or edited since, stays and is a problem."""
        try:
            self._put(self.path / name, content.encode("utf-8") if isinstance(content, str) else content)
            self.result.count += 1
        except (TranscriptError, OSError, ValueError) as error:
            known = error if isinstance(error, SpecdecError) else TranscriptError(f"{self.path / name}: {error}.")
            self.result.problems.append(known)

    def _put(self, target: Path, data: bytes) -> None:
        if os.path.lexists(target):
            there = target.read_bytes() if target.is_file() else b"\0"
            if there == data:
                return
            if digest(there) not in self._ours:
                self._ours |= self._read_index()  # another run may have written it
            if target.is_symlink() or digest(there) not in self._ours:
                raise TranscriptError(
                    f"{target} was left as it is: specdec did not write it, or it was edited since.",
                    hint=f"Name another {self._option}, or move that file away.",
                )
        target.parent.mkdir(parents=True, exist_ok=True)
        self._note(digest(data))
        replace(target, data)

    def _note(self, content: str) -> None:
        """Adds a digest to the index, which is opened without following a link."""
        if content not in self._ours:
            line = content if self._ours else f"{_HEAD}\n{content}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            with writing(self.path / INDEX), os.fdopen(os.open(self.path / INDEX, flags, 0o644), "a") as index:
                index.write(f"{line}\n")
            self._ours.add(content)

    def _read_index(self) -> set[str]:
        """The digests of what specdec wrote."""
        index = self.path / INDEX
        try:
            lines = index.read_text("utf-8").splitlines() if os.path.lexists(index) else []
        except (OSError, ValueError):
            lines = [""]
        if lines[:1] not in ([], [_HEAD]) or index.is_symlink():
            raise TranscriptError(
                f"{index} does not say which files specdec wrote.",
                hint=f"Move it away, or name another {self._option}.",
            )
        return set(lines)


def fitted(path: str, ending: str) -> str:
    """A relative path with an ending; a name that is too long for a file system is cut, and ends in a digest."""
    folder, name = os.path.split(path)
    if len(os.fsencode(f"{name}{ending}")) > _LONGEST:
        tail = f"-{digest(os.fsencode(name))}"
        cut = _LONGEST - len(tail) - len(os.fsencode(ending))
        name = os.fsencode(name)[:cut].decode("utf-8", "ignore") + tail
    return os.path.join(folder, f"{name}{ending}")


def digest(content: bytes) -> str:
    """16 hexadecimal digits that identify a content."""
    return hashlib.sha256(content).hexdigest()[:16]
