"""Which recordings a batch is about: files, folders, patterns, a list. Folders are scanned while they are iterated."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specdec_cli.audio.search import is_wanted, search
from specdec_cli.batch.items import Item, Key


class Inputs(Protocol):
    """Recordings, in an order of their own."""

    @property
    def base(self) -> str:
        """Absolute folder that names of exported files are relative to."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """The recordings, each once; found while it is iterated."""
        ...


@dataclass(frozen=True)
class Paths:
    """Recordings by path.

    Attributes:
        paths: files, folders and patterns (`*`, `?`, `[...]`, `**`), as given.
        recursive: whether folders are searched at every depth.
        pattern: what a name in a folder must match; None: the ending of a recording, and no leading dot.
        without: absolute paths that are never recordings, as the run's own output.
    """

    paths: Sequence[str]
    recursive: bool = False
    pattern: str | None = None
    without: frozenset[str] = field(default_factory=frozenset)

    @property
    def base(self) -> str:
        """The folder itself if there is one; else the deepest that holds everything that was named."""
        return common_folder([_root(path) for path in self.paths])

    def __iter__(self) -> Iterator[Item]:
        """The recordings; one that is named twice, or found again in a folder, comes once.

        A path that leads nowhere is a recording too: the run has to say that it is not there.
        """
        found = (Item(file) for path in self.paths for file in self._expand(path))
        return found if len(self.paths) == 1 else once(found)

    def _expand(self, path: str) -> Iterator[str]:
        if os.path.isdir(path):
            yield from search(path, self._wanted, recursive=self.recursive, without=self.without)
        elif os.path.lexists(path) or not glob.has_magic(path):
            yield path
        else:
            yield from self._match(path)

    def _wanted(self, name: str) -> bool:
        return is_wanted(name) if self.pattern is None else fnmatch.fnmatch(name, self.pattern)

    def _match(self, pattern: str) -> Iterator[str]:
        empty = True
        for path in glob.iglob(pattern, recursive=True):
            if not os.path.isdir(path) and os.path.abspath(path) not in self.without:
                empty = False
                yield path
        if empty:
            yield pattern


def read_list(text: bytes) -> list[str]:
    """The paths of a list, one a line; or each ended by a NUL, as from `find -print0`."""
    separator = b"\0" if b"\0" in text else b"\n"
    names = (name.rstrip(b"\r") if separator == b"\n" else name for name in text.split(separator))
    return [os.fsdecode(name) for name in names if name.strip()]


def once(items: Iterator[Item]) -> Iterator[Item]:
    """The items without those whose key has come before."""
    seen: set[Key] = set()
    for item in items:
        if (key := item.key) not in seen:
            seen.add(key)
            yield item


def relative_name(path: str, base: str) -> str:
    """What to call an absolute path in exports: its place below `base`, or all of it below `outside`."""
    inside = os.path.relpath(path, base) if common_folder([path, base]) == base else ""
    if inside and not inside.startswith(os.pardir):
        return inside
    drive, tail = os.path.splitdrive(path)
    return os.path.join("outside", drive.rstrip(":"), tail.lstrip("/\\"))


def common_folder(paths: Sequence[str]) -> str:
    """The deepest folder that holds all of `paths`, which are absolute; the root if there is none."""
    try:
        return os.path.commonpath(paths)
    except ValueError:  # no paths, or several drives
        return os.path.abspath(os.sep)


def _root(path: str) -> str:
    if not os.path.lexists(path) and glob.has_magic(path):
        parts = path.split(os.sep)
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        return os.path.abspath(os.sep.join(parts[:fixed]) or (os.sep if path.startswith(os.sep) else os.curdir))
    return os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
