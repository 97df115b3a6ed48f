"""A folder of exported files: what specdec wrote there is brought up to date, all else is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli.errors import SpecdecError, TranscriptError, WrongFileError
from specdec_cli.marks import EXPORTS, HEAD_OF_EXPORTS, digest, is_listed, listed
from specdec_cli.targets import replace, writing

_LONGEST_NAME: Final = 255  # bytes


@dataclass(slots=True)
class Written:
    """How many files stand as they should, and why others were not written."""

    count: int = 0
    problems: list[SpecdecError] = field(default_factory=list)

    def add(self, write: Callable[[], None], folder: Path | None = None) -> None:
        """Counts the file that `write` writes to a folder, which is created; else keeps the error."""
        try:
            if folder is not None:
                with writing(folder):
                    folder.mkdir(parents=True, exist_ok=True)
            write()
            self.count += 1
        except TranscriptError as error:
            self.problems.append(error)


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

    def put(self, name: str, content: str | bytes, recording: str | None = None) -> None:
        """Writes a file, whose name may begin with folders; `recording`: path of the only one that it is about.

        A file that specdec did not write, that was edited since, or that is about another recording stays and counts as
        a problem.
        """
        target, data = self.path / name, content.encode("utf-8") if isinstance(content, str) else content

        def entries(content: bytes) -> set[str]:
            """What the index has of a file with this content that is about the recording."""
            found, about = digest(content), os.fsencode(f"{name}\0{recording}\0")
            return {found} if recording is None else {found, digest(about + content)}

        self.result.add(lambda: self._put(target, data, entries))

    def _put(self, target: Path, data: bytes, entries: Callable[[bytes], set[str]]) -> None:
        with writing(target):
            if exists := os.path.lexists(target):
                there = target.read_bytes() if target.is_file() else b"\0"
                if there == data:
                    return
                if not entries(there) <= self._ours:
                    self._ours |= self._read_index()  # another run may have written it
                if target.is_symlink() or (digest(there) not in self._ours and not is_listed(target)):
                    raise WrongFileError(
                        f"{target} was left as it is: specdec did not write it, or it was edited since.",
                        hint=f"Name another {self._option}, or move that file away. The list of what specdec wrote "
                        f"there is the hidden file {EXPORTS}.",
                    )
                if not entries(there) <= self._ours:
                    raise WrongFileError(
                        f"{target} was left as it is: specdec wrote it about another recording of this name.",
                        hint=f"Name another {self._option}, or move that file away.",
                    )
            target.parent.mkdir(parents=True, exist_ok=True)
            if missing := entries(data) - self._ours:
                lines = [*([] if self._ours else [HEAD_OF_EXPORTS]), *sorted(missing)]
                with (self.path / EXPORTS).open("a") as index:
                    index.write("".join(f"{line}\n" for line in lines))
                self._ours |= missing
            replace(target, data, new=not exists)

    def _read_index(self) -> set[str]:
        """The digests of what specdec wrote."""
        if (found := listed(self.path)) is None:
            raise WrongFileError(
                f"{self.path / EXPORTS} does not say which files specdec wrote.",
                hint=f"Move it away, or name another {self._option}.",
            )
        return found


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
