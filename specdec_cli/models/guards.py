"""Limits of a checkpoint's files, for which nobody vouches: their kind, their size and the numbers in them.

Beside these, no pickle is opened, no code of a checkpoint is run, and jinja's sandbox renders its chat template.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

from specdec_cli.errors import CheckpointError

SMALL: Final = ("*.json", "*.jinja", "*.txt", "*.model")
"""The files that are read beside the weights."""

# far above what is published
_MOST_BYTES: Final = 128 << 20  # of each; the largest are tables of tokenizers
_MOST: Final = {r"layers|depth|blocks": 256, r"mel|feature_size|n_fft|fft_length|frame_length": 8192}


def require_readable(folder: Path, label: str) -> None:
    """Raises CheckpointError for what fills the memory, or never ends, before a weight is found missing.

    That is a pipe or a device in place of a file, a file that is too large, or too great a number in a configuration.
    """
    for path in sorted((*folder.glob("*"), *folder.glob("additional_chat_templates/*"))):
        if path.exists() and not path.is_dir() and not path.is_file():
            raise refused(label, f"{path.name} is not a regular file")
        if path.is_file() and any(path.match(small) for small in SMALL) and path.stat().st_size > _MOST_BYTES:
            held, limit = (f"{number / 1e6:,.0f} MB" for number in (path.stat().st_size, _MOST_BYTES))
            raise refused(label, f"{path.name} holds {held}, and at most {limit} are read")
    for name in ("config.json", "preprocessor_config.json", "processor_config.json"):
        content = (folder / name).read_text("utf-8", "replace") if (folder / name).is_file() else ""
        for key, digits in re.findall(r'"(\w+)"\s*:\s*(\d+)', content):
            most = min((limit for part, limit in _MOST.items() if re.search(part, key)), default=math.inf)
            if int(digits) > most and not key.endswith(("_id", "_index")):
                raise refused(label, f"{name} sets {key} to {int(digits):,}, and at most {most:,} is loaded")


def refused(label: str, why: str) -> CheckpointError:
    """The error of a checkpoint that cannot be as it was published."""
    return CheckpointError(f"{label} cannot be loaded: {why}", hint="Download it again, as it was published.")
