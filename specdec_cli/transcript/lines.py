"""Reads the lines of a file of transcripts, one at a time, and finds which lines of a recording are current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from specdec_cli.errors import AudioContentError, WrongFileError
from specdec_cli.inputs.names import SOUND_FILE
from specdec_cli.inputs.recording import Key
from specdec_cli.journal import StoredLine, read_lines
from specdec_cli.transcript.records import RowPart, Transcript, TranscriptHead

_BEHIND: Final = frozenset({"rounds", "totals", "timing", "resources", "uplink"})
"""Fields after the head of a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """The head of a transcript."""

    head: TranscriptHead  # its fields up to `rounds`
    number: int  # 1-based, in the file
    offset: int  # place in the file, bytes
    escalations: int | None = None  # in its rounds; None: no rounds, as after an error

    @property
    def key(self) -> Key:
        """The clip of the line. Recordings on stdin, which share one name, are identified by their content."""
        file, content = self.head.file, self.head.sha256
        return Key.of(f"-{content[:16]}" if file == "-" and content else file, self.head.id)


@dataclass(frozen=True, slots=True)
class LineState:
    """The fields of a line that decide whether it is current."""

    offset: int
    number: int
    good: bool  # whether it has a caption
    sha256: str | None
    place: tuple[float, float, int] | None = None  # start and end, seconds, channel, 0: all mixed; None: a recording
    pieces: int | None = None
    final: bool = False  # it has no caption, and this content can have none
    degraded: bool = False  # the cloud failed, and the edge wrote its caption alone
    row: bool = False  # a manifest named it, and it is the only piece of its row
    part: RowPart | None = None  # what its row means, if that has several pieces
    cuts: str | None = None  # digest of the file in a folder of cuts that it was cut by
    whole: bool = False  # it says what its recording is as a whole

    @classmethod
    def of(cls, line: Line) -> LineState:
        head = line.head
        place = None if head.start_s is None else (head.start_s, head.end_s or 0.0, head.channel or 0)
        content = head.error is not None and head.error.type == AudioContentError.__name__
        final = content and head.sha256 is not None
        return cls(
            line.offset,
            line.number,
            head.good,
            head.sha256,
            place,
            head.pieces,
            final=final,
            degraded=head.degraded is not None,
            row=head.pieces is None and (head.id is not None or head.row is not None),
            part=head.row,
            cuts=head.cuts,
            whole=head.whole is not None,
        )

    @property
    def cut(self) -> tuple[object, ...]:
        """Content and cutting of the recording: equal for lines that can be current together.

        Parts without a number of pieces may each have a content of their own, as the utterances of a microphone do. A
        row of a manifest means one part only.
        """
        if self.row:
            return self.sha256, self.place, self.cuts
        own = self.place is not None and self.pieces is None
        return None if own else self.sha256, self.pieces, self.place is None, self.part, self.cuts


def current_lines(lines: Iterable[LineState]) -> tuple[LineState, ...]:
    """The current lines of a recording, by their start; `lines` are all of its lines, in the order of the file.

    The last line of a piece is current. It supersedes all lines of another content or another cutting. A line without a
    caption supersedes only lines without one: a later failure undoes no caption.
    """
    good: dict[object, LineState] = {}
    failed: dict[object, LineState] = {}
    for line in lines:
        for group in (good, failed) if line.good else (failed,):
            if line.cut != next(iter(group.values()), line).cut:
                group.clear()
            group.pop(line.place, None)
        (good if line.good else failed)[line.place] = line
    return tuple(sorted([*good.values(), *failed.values()], key=lambda line: line.place or (-1.0, -1.0, 0)))


def latest(lines: Iterable[Line]) -> list[Line]:
    """The current ones of a recording's lines; see `current_lines`."""
    found = {line.offset: line for line in lines}
    return [found[state.offset] for state in current_lines(map(LineState.of, found.values()))]


def all_captioned(current: Sequence[LineState]) -> bool:
    """Whether every piece of a recording that can have a caption has one among the current lines."""
    alike = len({line.cut for line in current}) == 1 and all(line.good or line.final for line in current)
    return alike and current[0].pieces in (None, len(current))


def stored_lines(path: Path) -> Iterator[Line]:
    """All lines of a file, superseded ones included, without locking it; half a line at the end is left out.

    Raises:
        TranscriptError: it is a recording, holds something else, or cannot be read.
    """
    if SOUND_FILE.fullmatch(path.name) and path.exists():
        hint = "Caption it first, and name the transcripts: specdec batch RECORDINGS -o captions.jsonl"
        raise WrongFileError(f"{path} is a recording, and transcripts are read here.", hint=hint)
    half = (b"\0", b"{")  # what a killed run may leave
    return (head_of(path, line) for line in read_lines(path) if not (line.torn and line.raw.startswith(half)))


def head_of(path: Path, line: StoredLine) -> Line:
    """The head of a line; the rest is parsed and not checked. Raises TranscriptError if the line is no transcript."""
    place = f"{path}:{line.number}"
    try:
        values = from_json(line.raw, allow_inf_nan=False)  # ten times as fast as checking all rounds
    except ValueError:
        values = None
    if isinstance(values, dict) and values.keys() >= _BEHIND and isinstance(values["rounds"], list):
        head: TranscriptHead = TranscriptHead.of({name: values[name] for name in values.keys() - _BEHIND}, place)
    else:
        head = Transcript.from_json(line.raw, place)
        values = head.model_dump(include={"totals"})
    totals = values["totals"]
    return Line(head, line.number, line.offset, totals.get("escalations") if isinstance(totals, dict) else None)


def transcript_at(path: Path, line: LineState | Line) -> Transcript:
    """The whole transcript in a line of `path`; raises TranscriptError if it is malformed."""
    return Transcript.from_json(next(read_lines(path, line.offset)).raw, f"{path}:{line.number}")
