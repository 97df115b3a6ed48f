"""The user's cache folder, for files that can be made again. It may be emptied at any time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def cache_folder(kind: str) -> Path | None:
    """The folder for files of a kind, which need not exist; None for a user without a home folder, as in containers.

    A relative XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification demands.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():
        try:
            home = Path.home() / ".cache"
        except RuntimeError:
            return None
    return home / "specdec" / kind if home.is_absolute() else None


def cache_place(kind: str, *made_of: object) -> Path | None:
    """The path in the folder of a kind for something made of these values, told apart by `repr`; None: no cache."""
    folder = cache_folder(kind)
    return None if folder is None else folder / hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]
