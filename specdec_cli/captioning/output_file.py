"""The output of a run: which recordings it has, and appending lines to it, by one run at a time.

Lines are in the order in which clips were finished. A recording or a piece of one that is captioned again, because it
had failed or has changed, gets a new line at the end. When the file is closed, or opened the next time if the run was
killed, lines that others replace are dropped, and those of one recording put together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from specdec_cli.audio import Recording
from specdec_cli.audio.paths import STDIN
from specdec_cli.audio.pieces import ROUNDED_S
from specdec_cli.config.fields import AT_PAUSES
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.journal import Change, Journal, StoredLine
from specdec_cli.prompts import Language
from specdec_cli.targets import TRANSCRIPTS, writing
from specdec_cli.text import file_name
from specdec_cli.transcript.lines import Line, LineState, all_captioned, current_lines, head_of, transcript_at
from specdec_cli.transcript.records import RowPart, Transcript, TranscriptHead
from specdec_cli.transcript.shared import SharedFields, made_by

_ALIKE_S: Final = 0.001  # times are written with four decimals

Check = Callable[[Line], Iterable[Change]]
"""`accepts` of the base. It returns no None: a line that is passed over would be dropped from the output."""


def accepting(shared: SharedFields, instructed: Callable[[Line], tuple[Language, str] | None]) -> Check:
    """A check whether a line was made with the models and settings of the run, so that its output may hold it.

    `instructed`: language and instruction that the run would use for the clip of a line; None: whatever they were.
    """

    def accepts(line: Line) -> Iterator[Change]:
        language, instruction = instructed(line) or (None, None)
        return replace(shared, language=language, instruction=instruction).changes(line.head)

    return accepts


@dataclass(frozen=True, slots=True)
class Task:
    """A recording, to be captioned or to be compared with what the output holds of it."""

    item: InputFile
    lines: tuple[LineState, ...] = ()  # its lines that no later line replaces, by their start
    failed: bool = False  # whether it or a piece of it failed, or is missing
    # true if manifest or cuts now name other parts than the stored lines; decided after reading the file
    moved: bool = False
    renamed: bool = False  # whether its manifest has another speaker or text than the lines
    cuts_digest: str | None = None  # of its file in a folder of cuts

    @property
    def settled(self) -> bool:
        """Whether nothing is left to caption, unless the content has changed."""
        return bool(self.lines) and not self.moved and (not self.failed or all_captioned(self.lines))

    @property
    def done(self) -> bool:
        """Whether nothing is left to caption of the recording as it is now; reads its bytes."""
        return self.settled and self.unchanged

    @property
    def captioned(self) -> bool:
        """Whether it, or any piece of it, has a caption."""
        return any(line.good for line in self.lines)

    @property
    def sha256(self) -> str | None:
        """Hash of the content that was captioned, or that has nothing to describe; None if there is neither."""
        lines = sorted(self.lines, key=lambda line: not line.good)
        return next((line.sha256 for line in lines if line.good or line.final), None)

    @property
    def unchanged(self) -> bool:
        """Whether its captions are of the recording as it is now, or the recording cannot be read any more."""
        return self.sha256 is not None and self.item.content() in (self.sha256, None)

    def found_in(self, recording: Recording) -> frozenset[int]:
        """Indices of the pieces that have captions, or can have none, of the same content cut at the same places."""
        count = len(recording.spans)
        alike = [line for line in self.lines if (line.pieces or 1) == count and line.cuts == self.cuts_digest]
        if self.moved and count > 1:
            alike = []  # new lines supersede those of another part
        places = {line.place for line in alike if line.good or line.final}
        channels = (0 if span.channel is None else span.channel + 1 for span in recording.spans)
        given = [
            (round(span.start_s, 4), round(span.end_s, 4), n) for span, n in zip(recording.spans, channels, strict=True)
        ]
        return frozenset(n for n, place in enumerate(given) if place in places and self.sha256 == recording.sha256)


class Output(Journal[Line]):
    """An output that is open and locked; arguments and errors as of the base."""

    def __init__(self, path: Path | None, accepts: Check, *, overwrite: bool = False) -> None:
        self._tasks: dict[Key, Task] = {}
        self._states: dict[Key, list[LineState]] = {}  # of all lines, also of those that others replace
        self._items: dict[Key, InputFile] = {}
        self._order: list[int] = []  # places of all lines
        self._untidy = False  # lines may have been replaced, or those of a recording may be apart
        super().__init__(path, TRANSCRIPTS, accepts, overwrite=overwrite)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._untidy and kind is None:
                self._read()
        finally:
            self._close()

    def parsed(self, line: StoredLine) -> Line:
        """The head of a transcript."""
        return head_of(self.path, line)

    def take(self, entry: Line) -> str | None:
        """Counts it to the lines of its recording."""
        self._states.setdefault(entry.key, []).append(LineState.of(entry))
        self._items[entry.key] = _again(entry.head)
        self._order.append(entry.offset)
        return made_by(entry.head)

    def find(self, item: InputFile, *, again: bool = False, cuts_digest: str | None = None) -> Task:
        """A recording with what the output held of it when it was opened.

        `again`: captions that the edge finished because the cloud failed count as failed. `cuts_digest`: of its file
        in a folder of cuts.
        """
        known = self._tasks.get(item.key)
        if known is None:
            return Task(item)
        if again and any(line.degraded for line in known.lines):
            lines = tuple(replace(line, good=line.good and not line.degraded) for line in known.lines)
            known = replace(known, lines=lines, failed=True)
        of_row = item.id is not None or item.end_s is not None or any(line.part is not None for line in known.lines)
        moved = of_row and any(_elsewhere(item, line) for line in known.lines)
        moved = moved or any(line.good and line.cuts != cuts_digest for line in known.lines)
        renamed = known.captioned and (known.item.speaker, known.item.text) != (item.speaker, item.text)
        return replace(known, item=item, moved=moved, renamed=renamed, cuts_digest=cuts_digest)

    def follow(self, items: Iterable[InputFile]) -> int:
        """Gives recordings that were renamed or moved since they were captioned their lines, under their new names.

        They are known by their content; returns how many there are. Errors as in `append`.
        """
        gone: dict[tuple[str | None, str | None], Key] = {
            (task.sha256, key.id): key
            for key, task in self._tasks.items()
            if task.sha256 is not None and task.item.path != STDIN and not os.path.lexists(key.path)
        }
        now: dict[Key, str] = {}
        for item in items:
            if gone and item.key not in self._tasks and (key := gone.pop((item.content(), item.id), None)) is not None:
                now[key] = file_name(item.path)
        if now:
            with writing(self.path), self.path.open("rb") as old:
                renamed = ((now.get(key), line) for key, task in self._tasks.items() for line in task.lines)
                self.rewrite(
                    _line_at(old, line.offset, whole=True) if file is None else self._moved(line, file)
                    for file, line in renamed
                )
            self._read()
        return len(now)

    def _moved(self, line: LineState, file: str) -> bytes:
        """A line with another name of its recording."""
        return f"{transcript_at(self.path, line).model_copy(update={'file': file}).to_json()}\n".encode()

    def failed(self) -> list[InputFile]:
        """The recordings that have no caption or a degraded one, or a piece that has."""
        tasks = self._tasks.values()
        return [task.item for task in tasks if task.failed or any(line.degraded for line in task.lines)]

    def transcripts(self, task: Task) -> list[Transcript]:
        """The captions of a recording that the output holds, from the file."""
        return [transcript_at(self.path, line) for line in task.lines if line.good]

    def add(self, key: Key, transcript: Transcript) -> None:
        """Appends a line of a recording; errors as in `append`."""
        self.append(transcript.to_json())
        self._untidy = self._untidy or transcript.pieces is not None or key in self._tasks

    def _read(self) -> None:
        """Reads all lines; drops those that others replace, and puts those of a recording together."""
        for held in (self._states, self._items, self._order, self._tasks):
            held.clear()
        super()._read()
        self._accepts = _any  # the lines belong to this run
        for key, lines in self._states.items():
            current = current_lines(lines)
            complete = all_captioned(current) and all(line.good for line in current)
            self._tasks[key] = Task(self._items[key], current, not complete)
        kept = [line.offset for task in self._tasks.values() for line in task.lines]
        wholes = ([line.offset for line in task.lines if line.whole] for task in self._tasks.values())
        outdated = {offset for offsets in wholes for offset in sorted(offsets)[:-1]}
        if kept != self._order or outdated:
            with writing(self.path), self.path.open("rb") as old:
                self.rewrite(_line_at(old, offset, whole=offset not in outdated) for offset in kept)
            self._read()  # lines have other places now


def _any(_: Line) -> tuple[Change, ...]:
    return ()


def _line_at(file: BinaryIO, offset: int, *, whole: bool) -> bytes:
    """A line of the file; without `whole`, it does not say what its recording is as a whole."""
    file.seek(offset)
    line = file.readline().rstrip(b"\r\n")
    return (line if whole else Transcript.from_json(line).model_copy(update={"whole": None}).to_json().encode()) + b"\n"


def _elsewhere(item: InputFile, line: LineState) -> bool:
    """Whether a line may be about another part than a row of a manifest means."""
    if line.pieces is not None:
        return line.part != RowPart.of(item)
    begin_s = 0.0 if item.start_s is None and item.end_s is not None else item.start_s
    if line.place is None and item.start_s is None and item.end_s is not None:
        return line.part is not None and (line.part.end_s or 0.0) - item.end_s > ROUNDED_S
    if line.place is None or begin_s is None:
        return item.start_s is not None or line.place is not None
    start_s, end_s, channel = line.place
    after_s, before_s = start_s - begin_s, (item.end_s or math.inf) - end_s
    return max(abs(after_s), abs(before_s)) > _ALIKE_S or channel != (0 if item.channel is None else item.channel + 1)


def _again(head: TranscriptHead) -> InputFile:
    """How to caption the recording of a line again; one that has an id and is no piece may be a part of a file.

    Speaker, text and channel are those of its manifest, unless the recording is cut by a file or by its channels.
    """
    found = InputFile(head.file, id=head.id, language=head.language, instruction=head.prompt)
    cut = head.settings.get("segment") not in (None, AT_PAUSES) or head.settings.get("channel") == "each"
    start_s, end_s, channel = None, None, None if cut else head.channel
    if head.pieces is not None or head.row is not None:
        part = head.row or RowPart()
        start_s, end_s, channel = part.start_s, part.end_s, part.channel
    elif head.id is not None or head.start_s is None:
        start_s, end_s = head.start_s, head.end_s
    found = replace(found, start_s=start_s, end_s=end_s, channel=None if channel is None else channel - 1)
    return found if cut else replace(found, speaker=head.speaker, text=head.text)
