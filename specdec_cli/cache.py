"""The user's cache folder, for files that can be made again. It may be emptied at any time."""

from __future__ import annotations

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
