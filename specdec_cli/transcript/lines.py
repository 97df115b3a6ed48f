"""The lines of a file of transcripts: read and checked one at a time, and which lines of a recording are current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from specdec_cli.errors import AudioContentError
from specdec_cli.inputs.recording import Key
from specdec_cli.journal import StoredLine, read_lines
from specdec_cli.transcript.records import Transcript, TranscriptHead

_BEHIND: Final = frozenset({"rounds", "totals", "timing", "resources", "uplink"})
"""Fields behind the head of a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """The head of a transcript."""

    head: TranscriptHead  # its fields up to `rounds`
    number: int  # 1-based, in the file
    offset: int  # place in the file, bytes
    escalations: int | None = None  # of its rounds; None: no rounds, as of an error

    @property
    def key(self) -> Key:
        """The clip that it belongs to; recordings on stdin, which share one name, are identified by their content."""
        file, content = self.head.file, self.head.sha256
        return Key.of(f"-{content[:16]}" if file == "-" and content else file, self.head.id)


@dataclass(frozen=True, slots=True)
class Mark:
    """The fields that decide whether a line is current; `place`: start, end and channel; None: a recording.

    The channel is 0 where all are mixed.
    `final`: it has no caption, and none can be made of this content.
    """

    offset: int
    number: int
    good: bool
    sha256: str | None
    place: tuple[float, float, int] | None = None
    pieces: int | None = None
    final: bool = False
    degraded: bool = False  # its caption lacks the cloud, which failed
    row: bool = False  # a manifest named it, and it is the only piece of its row

    @classmethod
    def of(cls, line: Line) -> Mark:
        """The mark of a line."""
        head = line.head
        place = None if head.start_s is None else (head.start_s, head.end_s or 0.0, head.channel or 0)
        content = head.error is not None and head.error.type == AudioContentError.__name__
        final = content and head.sha256 is not None
        row, degraded = head.id is not None and head.pieces is None, head.degraded is not None
        return cls(line.offset, line.number, head.good, head.sha256, place, head.pieces, final, degraded, row)

    @property
    def cut(self) -> tuple[object, ...]:
        """Content and number of pieces: equal for lines that stand together.

        Parts that nobody numbered may each be a content of its own, as the utterances of a microphone are. A row of a
        manifest means one part only.
        """
        if self.row:
            return self.sha256, self.place
        own = self.place is not None and self.pieces is None
        return None if own else self.sha256, self.pieces, self.place is None


def standing(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """The current ones of all lines of a recording, by their start; `marks` are in the order of the file.

    The last line of a piece is current. It supersedes all lines of another content or another cutting. A line without a
    caption supersedes only lines without one: a later failure undoes no caption.
    """
    good: dict[object, Mark] = {}
    failed: dict[object, Mark] = {}
    for mark in marks:
        for group in (good, failed) if mark.good else (failed,):
            if mark.cut != next(iter(group.values()), mark).cut:
                group.clear()
            group.pop(mark.place, None)
        (good if mark.good else failed)[mark.place] = mark
    return tuple(sorted([*good.values(), *failed.values()], key=lambda mark: mark.place or (-1.0, -1.0, 0)))


def settled(marks: Sequence[Mark]) -> bool:
    """Whether every piece of a recording that can have a caption has one among the current lines."""
    alike = len({mark.cut for mark in marks}) == 1 and all(mark.good or mark.final for mark in marks)
    return alike and marks[0].pieces in (None, len(marks))


def stored_lines(path: Path) -> Iterator[Line]:
    """All lines of a file, without locking it, superseded ones included; half a last line is left out.

    Raises:
        TranscriptError: it holds something else, or cannot be read.
    """
    half = (b"\0", b"{")  # what a killed run may leave
    return (head_of(path, line) for line in read_lines(path) if not (line.torn and line.raw.startswith(half)))


def head_of(path: Path, line: StoredLine) -> Line:
    """The head of a line; the rest must be JSON and is not checked. Raises TranscriptError if it is no transcript."""
    place = f"{path}:{line.number}"
    try:
        values = from_json(line.raw, allow_inf_nan=False)  # ten times as fast as a check of all rounds
    except ValueError:
        values = None
    if isinstance(values, dict) and values.keys() >= _BEHIND and isinstance(values["rounds"], list):
        head: TranscriptHead = TranscriptHead.of({name: values[name] for name in values.keys() - _BEHIND}, place)
    else:
        head = Transcript.from_json(line.raw, place)
        values = head.model_dump(include={"totals"})
    totals = values["totals"]
    return Line(head, line.number, line.offset, totals.get("escalations") if isinstance(totals, dict) else None)


def transcript_at(path: Path, mark: Mark | Line) -> Transcript:
    """The whole transcript in a line; raises TranscriptError if it is malformed."""
    return Transcript.from_json(next(read_lines(path, mark.offset)).raw, f"{path}:{mark.number}")
