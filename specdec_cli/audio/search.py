"""What a folder holds that is taken for a recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from typing import Final

SUFFIXES: Final = frozenset(
    {".3gp", ".aac", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".au", ".avi", ".bwf", ".caf", ".flac", ".m4a", ".m4b"}
    | {".mka", ".mkv", ".mov", ".mp2", ".mp3", ".mp4", ".mpga", ".oga", ".ogg", ".opus", ".rf64", ".snd", ".sph"}
    | {".w64", ".wav", ".wave", ".webm", ".wma"}
)
"""Endings of what a folder is searched for; a file that is named, or matched by a pattern, may have any."""


def is_wanted(name: str) -> bool:
    """Whether what a folder holds under this name is taken for a recording: by its ending, and never if hidden."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES


def search(
    folder: str,
    wanted: Callable[[str], bool] = is_wanted,
    *,
    recursive: bool = False,
    without: Container[str] = frozenset(),
) -> Iterator[str]:
    """Paths of the recordings inside a folder, in no certain order, found while they are iterated.

    A link to a folder is not followed, for it could lead in a circle. A folder that may not be listed comes itself:
    whoever opens it as a recording says what is wrong with it.

    Args:
        folder: where to begin.
        wanted: whether a file of this name is a recording.
        recursive: folders inside folders too.
        without: absolute paths of files and folders to leave out.
    """
    try:
        entries = os.scandir(folder)
    except OSError:
        yield folder
        return
    folders = []
    with entries:
        for entry in entries:
            if os.path.abspath(entry.path) in without:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif wanted(entry.name):
                yield entry.path
    for inner in folders if recursive else ():
        yield from search(inner, wanted, recursive=True, without=without)
