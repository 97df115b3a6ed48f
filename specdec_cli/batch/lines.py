"""What a resumed run wants to know of the lines of an output, read without their rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final

from specdec_cli.batch.items import Key
from specdec_cli.errors import TranscriptError

_ROUNDS: Final = b',"rounds":['
"""What stands behind all that is read here. Quotes inside a text are escaped, so no text can hold it."""


@dataclass(frozen=True, slots=True)
class Line:
    """The head of a transcript.

    Attributes:
        values: its fields up to `rounds`.
        number: 1-based, in the file.
        offset, size: place in the file, bytes, newline included.
        whole: whether it ends in a newline.
    """

    values: Mapping[str, Any]
    number: int
    offset: int
    size: int
    whole: bool

    @property
    def key(self) -> Key:
        """The clip it belongs to."""
        return Key.of(self.values["file"], self.values.get("id"))

    @property
    def good(self) -> bool:
        """Whether it has a caption."""
        return self.values.get("caption") is not None and self.values.get("error") is None

    @property
    def start_s(self) -> float | None:
        """Start of the segment; None for a whole recording."""
        return self.values.get("start_s")


def read_lines(path: Path, file: BufferedIOBase) -> Iterator[Line]:
    """The lines of an open output, in order; empty ones are left out, and so is a torn one at the end.

    Args:
        path: its name, for messages.
        file: at its start.

    Raises:
        TranscriptError: a line that is not the last is no transcript; names it.
    """
    offset = 0
    for number, raw in enumerate(file, 1):
        whole = raw.endswith(b"\n")
        if raw.strip():
            values = _head(raw.strip(), torn=not whole)
            if values is None and whole:
                raise TranscriptError(
                    f"{path}:{number} is no transcript of schema 1.",
                    hint="Delete that line, or name a new file. Each line is one JSON object.",
                )
            if values is not None:
                yield Line(values, number, offset, len(raw), whole)
        offset += len(raw)


def groups(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """The lines of one run over one clip: one, or one per segment, which were written together."""
    group: list[Line] = []
    for line in lines:
        if group and not (line.start_s and group[-1].key == line.key and line.start_s > (group[-1].start_s or 0.0)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def is_whole(raw: bytes) -> bool:
    """Whether bytes at the end of a file are all of a transcript."""
    return _head(raw.strip(), torn=True) is not None


def _head(raw: bytes, *, torn: bool) -> dict[str, Any] | None:
    """The fields before `rounds`, or None if this is no transcript, or not all of one.

    Args:
        raw: the line.
        torn: whether the line may end anywhere, so that all of it has to be read.
    """
    if not raw.endswith(b"}"):
        return None
    cut = -1 if torn else raw.find(_ROUNDS)
    try:
        values = json.loads(raw if cut < 0 else raw[:cut] + b"}")
    except ValueError:
        return None
    known = isinstance(values, dict) and values.get("schema") == 1 and isinstance(values.get("file"), str)
    return values if known else None
