"""A folder of exported files: what specdec wrote there is brought up to date, all else is left alone."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli.errors import SpecdecError, TranscriptError, WrongFileError
from specdec_cli.targets import replace, writing

INDEX: Final = ".specdec-exports"
"""File in a folder of exports: a digest of whatever specdec writes there, a line each, added before it is written."""

_HEAD: Final = "specdec exports"


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
        target = self.path / name
        try:
            with writing(target):
                self._put(target, content.encode("utf-8") if isinstance(content, str) else content)
            self.result.count += 1
        except TranscriptError as error:
            self.result.problems.append(error)

    def _put(self, target: Path, data: bytes) -> None:
        if os.path.lexists(target):
            there = target.read_bytes() if target.is_file() else b"\0"
            if there == data:
                return
            if digest(there) not in self._ours:
                self._ours |= self._read_index()  # another run may have written it
            if target.is_symlink() or digest(there) not in self._ours:
                raise WrongFileError(
                    f"{target} was left as it is: specdec did not write it, or it was edited since.",
                    hint=f"Name another {self._option}, or move that file away.",
                )
        target.parent.mkdir(parents=True, exist_ok=True)
        if (name := digest(data)) not in self._ours:
            with (self.path / INDEX).open("a") as index:
                index.write(f"{name}\n" if self._ours else f"{_HEAD}\n{name}\n")
            self._ours.add(name)
        replace(target, data)

    def _read_index(self) -> set[str]:
        """The digests of what specdec wrote."""
        index = self.path / INDEX
        if not os.path.lexists(index):
            return set()
        lines = index.read_bytes().decode("utf-8", "replace").splitlines() if index.is_file() else []
        if lines[:1] != [_HEAD] or index.is_symlink():
            raise WrongFileError(
                f"{index} does not say which files specdec wrote.",
                hint=f"Move it away, or name another {self._option}.",
            )
        return set(lines)


def digest(content: bytes) -> str:
    """16 hexadecimal digits that identify a content."""
    return hashlib.sha256(content).hexdigest()[:16]
