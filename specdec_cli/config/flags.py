"""The settings that have an option of their own on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FLAGS: Final[Mapping[str, str]] = {
    "edge.model": "--edge",
    "cloud.model": "--cloud",
    "prompt.language": "--language",
    "prompt.instruction": "--prompt",
    "audio.segment": "--segment",
    "audio.start_s": "--start",
    "audio.end_s": "--end",
    "audio.channel": "--channel",
    "audio.strict": "--strict",
    "decoding.mode": "--mode",
    "decoding.k": "-k",
    "gate.name": "--gate",
    "gate.threshold": "--threshold",
}
"""Setting -> its option."""


def with_flags(text: str) -> str:
    """A text in which the option of every setting follows its name, but not in `decoding.mode=edge`."""
    options = {name: f"{name} ({flag})" for name, flag in FLAGS.items()}
    return re.sub(r"\b[a-z]+\.[a-z_]+\b(?!=)", lambda name: options.get(name[0], name[0]), text)
