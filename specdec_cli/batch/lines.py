"""The lines of an output by recording, and which of them stand: a later line of a piece replaces an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, Final

from specdec_cli.errors import TranscriptError
from specdec_cli.inputs.recording import Key
from specdec_cli.store import StoredLine, read_lines
from specdec_cli.transcript.schema import Transcript, file_name

_ROUNDS: Final = b',"rounds":['
"""What stands behind all that is read here. Quotes inside a text are escaped, so no text can hold it."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("file", "language", "prompt", "mode"), (str,)),
    **dict.fromkeys(("id", "sha256", "caption", "speaker", "text"), (str, NoneType)),
    **dict.fromkeys(("models", "settings"), (dict,)),
    **dict.fromkeys(("labels", "scores", "measured", "agrees", "error"), (dict, NoneType)),
    **dict.fromkeys(("start_s", "end_s", "duration_s"), (int, float, NoneType)),
    **dict.fromkeys(("piece", "pieces"), (int, NoneType)),
}


@dataclass(frozen=True, slots=True)
class Line:
    """The head of a transcript.

    Attributes:
        values: its fields up to `rounds`.
        number: 1-based, in the file.
        offset: place in the file, bytes.
    """

    values: Mapping[str, Any]
    number: int
    offset: int

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


@dataclass(frozen=True, slots=True)
class Mark:
    """What of a line decides whether it stands; `place` is start and end of a segment, None for a whole recording."""

    offset: int
    good: bool
    sha256: str | None
    place: tuple[float, float] | None
    piece: int | None
    pieces: int | None
    number: int = 0  # of the line

    @classmethod
    def of(cls, line: Line) -> Mark:
        """The mark of a line."""
        values, start_s = line.values, line.start_s
        end_s = values.get("end_s")
        place = None if start_s is None else (float(start_s), float(end_s or 0.0))
        return cls(
            line.offset, line.good, values.get("sha256"), place, values.get("piece"), values.get("pieces"), line.number
        )

    def leaves(self, before: Mark) -> bool:
        """Whether an earlier line of the same recording stands beside this one."""
        if self.place is None or before.place is None:
            return self.place is None and not self.good and before.good  # what failed later does not undo captions
        if None not in (self.sha256, before.sha256) and self.sha256 != before.sha256:
            return False
        if self.piece is None or before.piece is None:
            return before.pieces in (None, self.pieces) and self.place[0] != before.place[0]
        return before.pieces == self.pieces and self.piece != before.piece


def standing(marks: Sequence[Mark], added: Mark) -> tuple[Mark, ...]:
    """The lines of a recording that stand, by their start, once another is added to those that stood.

    Segments without numbers, as 0.1 wrote them, were written by their start: one that begins earlier is of a new run.
    """
    latest = max(marks, key=lambda mark: mark.offset, default=None)
    if latest is not None and added.piece is None and None not in (added.place, latest.place):
        marks = marks if _by_start(added)[0] > _by_start(latest)[0] else ()
    return tuple(sorted([*(mark for mark in marks if added.leaves(mark)), added], key=_by_start))


def last_standing(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Of all lines of a recording, in the order of the file, those that stand in the end, by their start."""
    if _of_one_run(marks):  # there may be thousands, and `standing` compares each with each
        return tuple(sorted(marks, key=_by_start))
    found: tuple[Mark, ...] = ()
    for mark in marks:
        found = standing(found, mark)
    return found


def _of_one_run(marks: Sequence[Mark]) -> bool:
    """Whether lines are of different segments of the same content, cut in one way."""
    if any(mark.place is None for mark in marks) or len({(mark.sha256, mark.pieces) for mark in marks}) > 1:
        return False
    pieces = [mark.piece for mark in marks]
    if None not in pieces:
        return len(set(pieces)) == len(pieces)
    starts = [_by_start(mark)[0] for mark in marks]
    return not any(piece is not None for piece in pieces) and all(a < b for a, b in pairwise(starts))


def _by_start(mark: Mark) -> tuple[float, float]:
    return mark.place or (-1.0, -1.0)


def complete(marks: Sequence[Mark]) -> bool:
    """Whether there is a caption of all of a recording."""
    pieces = next((mark.pieces for mark in marks if mark.pieces is not None), None)
    return all(mark.good for mark in marks) and pieces in (None, len(marks))


def stored_lines(path: Path) -> Iterator[Line]:
    """All lines of an output that need not be locked, also those that later ones replace.

    Raises:
        TranscriptError: it holds something else, or cannot be read.
    """
    try:
        yield from heads(path, read_lines(path))
    except OSError as error:
        raise TranscriptError(
            f"The transcript {path} cannot be read: {error.strerror or error}.",
            hint="Name a file that `specdec caption --output` or `specdec batch` wrote.",
        ) from error


def transcript_at(path: Path, offset: int, place: str) -> Transcript:
    """The whole transcript in the line that begins at `offset`, bytes; `place` names it in messages.

    Raises:
        TranscriptError: it is malformed.
    """
    return Transcript.from_json(next(read_lines(path, offset)).raw, place)


def lines_at(path: Path, marks: Iterable[Mark]) -> Iterator[Line]:
    """The lines of an output that have these marks.

    Raises:
        TranscriptError: there is something else.
    """
    with path.open("rb") as file:
        for mark in marks:
            file.seek(mark.offset)
            yield from heads(path, [StoredLine(mark.number, mark.offset, file.readline())])


def heads(path: Path, lines: Iterable[StoredLine]) -> Iterator[Line]:
    """The lines as far as they are read here.

    Raises:
        TranscriptError: one of them is no transcript.
    """
    for line in lines:
        values = _head(line)
        if values is not None:
            yield Line(values, line.number, line.offset)
        elif line.whole:
            raise TranscriptError(
                f"{path}:{line.number} is no transcript of schema 1.",
                hint="Delete that line, or name a new file. Each line is one JSON object.",
            )


def _head(line: StoredLine) -> dict[str, Any] | None:
    """The fields before `rounds`, or None if this is no transcript, or not all of one."""
    raw = line.raw.strip()
    cut = raw.find(_ROUNDS) if line.whole else -1  # a line that may end anywhere has to be read to its end
    try:
        values = json.loads(raw if cut < 0 else raw[:cut] + b"}") if raw.endswith(b"}") else None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and _well_formed(values) else None


def _well_formed(values: dict[str, Any]) -> bool:
    if values.get("schema") != 1 or not all(isinstance(values.get(name), types) for name, types in _TYPES.items()):
        return False
    error, models = values.get("error"), values["models"].values()
    return (
        file_name(values["file"]) == values["file"]
        and (error is None or all(isinstance(error.get(name), str) for name in ("type", "message")))
        and all(model is None or (isinstance(model, dict) and isinstance(model.get("name"), str)) for model in models)
    )
