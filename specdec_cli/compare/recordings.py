"""What is compared: recordings named one by one or by their folder, each known by its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.audio.files import opened, sha256, shown
from specdec_cli.audio.search import search
from specdec_cli.errors import AudioError, ConfigError


@dataclass(frozen=True, slots=True)
class Recording:
    """A file to compare modes on.

    Attributes:
        path: as given, or found in a folder that was.
        sha256: of its bytes, hexadecimal; None if it could not be read.
        error: why not.
    """

    path: str
    sha256: str | None
    error: AudioError | None = None

    @property
    def key(self) -> str:
        """What its transcripts are known by: the hash, or else the path as a transcript writes it."""
        return self.sha256 or self.path.encode("utf-8", "backslashreplace").decode("utf-8")


def find_recordings(paths: Sequence[str], *, recursive: bool = False, limit: int | None = None) -> list[str]:
    """Files as given, and for each folder the recordings inside it, sorted by name; each file once.

    Args:
        paths: files and folders.
        recursive: folders inside folders too.
        limit: the first so many; None for all.

    Raises:
        ConfigError: a folder holds no recording, or cannot be listed.
    """
    found: dict[str, str] = {}
    for path in paths:
        for file in _inside(Path(path), recursive) if os.path.isdir(path) else [path]:
            found.setdefault(os.path.abspath(file), file)
    return list(found.values())[:limit]


def identify(paths: Iterable[str]) -> tuple[list[Recording], dict[str, str]]:
    """Every recording with its hash, and those left out because another one holds the same bytes.

    Returns:
        The recordings in order, unreadable ones with their error; and path -> path of its equal before it.
    """
    recordings: list[Recording] = []
    first: dict[str, str] = {}
    copies: dict[str, str] = {}
    for path in paths:
        try:
            with opened(path) as (file, _):
                digest = sha256(file)
        except AudioError as error:
            recordings.append(Recording(path, None, error))
            continue
        if digest in first:
            copies[path] = first[digest]
            continue
        first[digest] = path
        recordings.append(Recording(path, digest))
    return recordings, copies


def _inside(folder: Path, recursive: bool) -> list[str]:
    found = sorted(map(Path, search(str(folder), recursive=recursive)))
    if denied := next((path for path in found if path.is_dir() and not path.is_symlink()), None):
        raise ConfigError(f"The folder {shown(str(denied))} cannot be listed.", hint="Look at its permissions.")
    files = [str(path) for path in found if path.is_file()]
    if not files:
        deeper = "" if recursive else " Folders inside it are searched with --recursive."
        raise ConfigError(
            f"The folder {shown(str(folder))} holds no recording.",
            hint=f"Recordings are known by their names, e.g. *.wav; any other file can be named itself.{deeper}",
        )
    return files
