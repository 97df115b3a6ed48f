"""The lines of a file of transcripts: read one at a time and checked, and which of a recording's lines stand."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.errors import AudioContentError, TranscriptError
from specdec_cli.inputs.recording import Key
from specdec_cli.regular_files import open_regular
from specdec_cli.store import StoredLine, read_lines
from specdec_cli.transcript.records import Transcript, TranscriptHead, parse

_ROUNDS: Final = b',"rounds":['
"""What stands behind the head of a line. Quotes inside a text are escaped, so no text can hold it."""


@dataclass(frozen=True, slots=True)
class Line:
    """The head of a transcript.

    Attributes:
        head: its fields up to `rounds`.
        number: 1-based, in the file.
        offset: place in the file, bytes.
    """

    head: TranscriptHead
    number: int
    offset: int

    @property
    def key(self) -> Key:
        """The clip that it belongs to."""
        return Key.of(self.head.file, self.head.id)


@dataclass(frozen=True, slots=True)
class Mark:
    """What of a line decides whether it stands; `place` is start and end of a segment, None for a whole recording.

    `final`: it has no caption, and none can be made of this content.
    """

    offset: int
    number: int
    good: bool
    sha256: str | None
    place: tuple[float, float] | None = None
    pieces: int | None = None
    final: bool = False

    @classmethod
    def of(cls, line: Line) -> Mark:
        """The mark of a line."""
        head = line.head
        place = None if head.start_s is None else (head.start_s, head.end_s or 0.0)
        content = head.error is not None and head.error.type == AudioContentError.__name__
        final = content and head.sha256 is not None
        return cls(line.offset, line.number, head.good, head.sha256, place, head.pieces, final)

    @property
    def cut(self) -> tuple[str | None, int | None, bool]:
        """Content and number of pieces: equal for lines that stand together."""
        return self.sha256, self.pieces, self.place is None


def standing(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Of all lines of a recording, in the order of the file, those that stand, by their start.

    The last line of a piece stands, and all of another content or other pieces goes with it. A line without a caption
    replaces such lines alone: what fails later undoes no caption.
    """
    good: dict[object, Mark] = {}
    failed: dict[object, Mark] = {}
    for mark in marks:
        for group in (good, failed) if mark.good else (failed,):
            if mark.cut != next(iter(group.values()), mark).cut:
                group.clear()
            group.pop(mark.place, None)
        (good if mark.good else failed)[mark.place] = mark
    return tuple(sorted([*good.values(), *failed.values()], key=lambda mark: mark.place or (-1.0, -1.0)))


def complete(marks: Iterable[Mark]) -> bool:
    """Whether lines that stand have captions of all of a recording."""
    found = list(marks)
    return all(mark.good for mark in found) and settled(found)


def settled(marks: Iterable[Mark]) -> bool:
    """Whether captions of all of a recording that can have one are among the lines that stand."""
    found = list(marks)
    alike = len({mark.cut for mark in found}) == 1 and all(mark.good or mark.final for mark in found)
    return alike and found[0].pieces in (None, len(found))


def stored_lines(path: Path) -> Iterator[Line]:
    """All lines of a file that need not be locked, also those that later ones replace; half a last line is left out.

    Raises:
        TranscriptError: it holds something else, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            head = file.read(4096).lstrip()
        if b"\0" in head and not head.startswith(b"{"):
            hint = f"specdec caption {shlex.quote(str(path))} --output {shlex.quote(f'{path.stem}.jsonl')}"
            raise TranscriptError(f"{path} looks like a recording, not like transcripts: caption it first.", hint=hint)
        yield from heads(path, (line for line in read_lines(path) if not line.torn))
    except OSError as error:
        raise TranscriptError(
            f"The transcript {path} cannot be read: {error.strerror or error}.",
            hint="Name a file that `specdec caption --output` or `specdec batch` wrote.",
        ) from error


def heads(path: Path, lines: Iterable[StoredLine]) -> Iterator[Line]:
    """The heads of lines, whose rest is not read; raises TranscriptError for what is no transcript."""
    for line in lines:
        cut = line.raw.find(_ROUNDS)
        kind, text = (Transcript, line.raw) if cut < 0 else (TranscriptHead, line.raw[:cut] + b"}")
        yield Line(parse(kind, text, f"{path}:{line.number}"), line.number, line.offset)


def transcript_at(path: Path, mark: Mark | Line) -> Transcript:
    """The whole transcript in a line; raises TranscriptError if it is malformed."""
    return Transcript.from_json(next(read_lines(path, mark.offset)).raw, f"{path}:{mark.number}")


def lines_at(path: Path, marks: Iterable[Mark]) -> Iterator[Line]:
    """The heads of the lines that have these marks; errors as in `heads`."""
    with path.open("rb") as file:
        for mark in marks:
            file.seek(mark.offset)
            yield from heads(path, [StoredLine(mark.number, mark.offset, file.readline())])
