"""A folder of exported files: what specdec wrote there is brought up to date, all else is left alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from specdec_cli.errors import SpecdecError, TranscriptError
from specdec_cli.targets import replace

INDEX: Final = ".specdec-texts"
"""File in a folder of exports: which of its files specdec wrote, and a digest of each."""

_FORMAT: Final = "specdec texts"
_LONGEST: Final = 255  # bytes of a file's name
_UNSAFE: Final = re.compile(r"[/\\%:<>|?*\x00-\x1f]|^\.")  # what a file's name cannot hold, and a leading dot


@dataclass(slots=True)
class Written:
    """How many files were written, or found as they should be, and what was not, and why."""

    count: int = 0
    problems: list[SpecdecError] = field(default_factory=list)


class Folder:
    """A folder that files are exported to. Use it as a context manager: its index is written at the end.

    Args:
        path: created with the first file.
        option: that names it, for hints.

    Raises:
        TranscriptError: its index cannot be read.
    """

    def __init__(self, path: Path, option: str) -> None:
        self.path, self._option = path, option
        self._written = self._read_index()
        self._before = dict(self._written)
        self.result = Written()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes the index.

        Raises:
            TranscriptError: the folder cannot be written.
        """
        if self._written != self._before:
            replace(self.path / INDEX, json.dumps({"format": _FORMAT, "files": self._written}, indent=0))

    def put(self, name: str, content: str | bytes) -> None:
        """Writes a file; one that specdec did not write, or that was edited since, is left alone, and a problem.

        Args:
            name: relative to the folder; the folders in it are created.
            content: all of the file.
        """
        data = content.encode("utf-8") if isinstance(content, str) else content
        try:
            self._put(self.path / name, data, self._written.get(name))
            self._written[name] = digest(data)
            self.result.count += 1
        except (TranscriptError, OSError, ValueError) as error:
            known = error if isinstance(error, SpecdecError) else TranscriptError(f"{self.path / name}: {error}.")
            self.result.problems.append(known)

    def _put(self, target: Path, data: bytes, known: str | None) -> None:
        if os.path.lexists(target):
            there = target.read_bytes() if target.is_file() else b"\0"
            if there == data:
                return
            if known is None or digest(there) != known or target.is_symlink():
                raise TranscriptError(
                    f"{target} was left as it is: specdec did not write it, or it was edited since.",
                    hint=f"Name another {self._option}, or move that file away.",
                )
        for folder in reversed(target.parents):  # not parents=True, which calls itself for each of them
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
        replace(target, data)

    def _read_index(self) -> dict[str, str]:
        """Name -> digest of what specdec wrote."""
        try:
            index = json.loads((self.path / INDEX).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            index = None
        if not isinstance(index, Mapping) or index.get("format") != _FORMAT or not isinstance(index.get("files"), dict):
            raise TranscriptError(
                f"{self.path / INDEX} does not say which files specdec wrote.",
                hint=f"Move it away, or name another {self._option}.",
            )
        return dict(index["files"])


def fitted(path: str, ending: str) -> str:
    """A relative path with an ending; a name that is too long for a file system is cut, and ends in a digest."""
    folder, name = os.path.split(path)
    if len(os.fsencode(f"{name}{ending}")) > _LONGEST:
        tail = f"-{digest(os.fsencode(name))}"
        cut = _LONGEST - len(tail) - len(os.fsencode(ending))
        name = os.fsencode(name)[:cut].decode("utf-8", "ignore") + tail
    return os.path.join(folder, f"{name}{ending}")


def safe(text: str) -> str:
    """Any text as a part of a file's name; no two give the same."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def digest(content: bytes) -> str:
    """16 hexadecimal digits that tell contents apart."""
    return hashlib.sha256(content).hexdigest()[:16]
