"""A folder of exported files: files by specdec are brought up to date, all others are left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli import interrupts
from specdec_cli.errors import SpecdecError, TranscriptError
from specdec_cli.targets import Targets, writing
from specdec_cli.written import digest

_LONGEST_NAME: Final = 255  # bytes


@dataclass(slots=True)
class Written:
    """How many files are up to date, and why others were not written."""

    count: int = 0
    problems: list[SpecdecError] = field(default_factory=list)

    def add(self, write: Callable[[], None], folder: Path | None = None) -> None:
        """Adds the file that `write` writes to a folder, which is created; else keeps the error."""
        try:
            if folder is not None:
                with writing(folder):
                    folder.mkdir(parents=True, exist_ok=True)
            write()
            self.count += 1
        except TranscriptError as error:
            self.problems.append(error)


class Folder:
    """A folder that files are exported to, by several runs at once if need be; it is created with the first file."""

    def __init__(self, path: Path, targets: Targets) -> None:
        self.path, self._targets = path, targets
        self.result = Written()

    def put(self, name: str, content: str | bytes, recording: str | None = None) -> None:
        """Writes a file, whose name may begin with folders; `recording`: path of the only one that it is about.

        A file that may not be replaced, or that is about another recording, stays and is reported as a problem.
        """
        interrupts.check()
        target = self.path / name
        self.result.add(lambda: self._targets.write(target, content, recording or ""), target.parent)


def shortened(name: str, ending: str) -> str:
    """A file's name with its ending, cut to the 255 bytes that file systems take; a name that is cut gets a digest.

    `name` may begin with folders, whose names are shortened as well.
    """
    *folders, last = name.split("/")
    return "/".join([*(_at_most(folder, "") for folder in folders), _at_most(last, ending)])


def _at_most(name: str, ending: str) -> str:
    data = os.fsencode(name)
    if len(data) + len(ending) <= _LONGEST_NAME:
        return f"{name}{ending}"
    room = _LONGEST_NAME - len(ending) - 17
    return f"{data[:room].decode('utf-8', 'ignore')}-{digest(data)}{ending}"
