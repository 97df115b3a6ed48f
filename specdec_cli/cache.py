"""The user's folders for files that specdec makes for itself. Those in the cache may be deleted at any time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def user_folder(variable: str, default: str) -> Path | None:
    """`specdec` in the folder that a variable names, or in `default` below the user's home folder.

    It need not exist; None for a user without a home folder, as in containers. A relative path in the variable is
    ignored, as the XDG Base Directory Specification demands.
    """
    home = Path(os.environ.get(variable, ""))
    if not home.is_absolute():
        try:
            home = Path.home() / default
        except RuntimeError:
            return None
    return home / "specdec" if home.is_absolute() else None


def cache_place(kind: str, *made_of: object) -> Path | None:
    """The path in the cache for something of a kind made of these values, told apart by `repr`; None: no cache."""
    folder = user_folder("XDG_CACHE_HOME", ".cache")
    return None if folder is None else folder / kind / hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]
