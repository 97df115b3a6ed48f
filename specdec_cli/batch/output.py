"""The output of a batch: who is in it already, and appending lines to it, by one run at a time.

Lines stand in the order in which clips were finished, and are never changed. A recording or a piece of one that is
captioned again, because it had failed or has changed, gets a new line at the end. When the file is closed, or opened
the next time if the run was killed, lines that others replace are dropped, and those of one recording put together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.batch.lines import Line, Mark, complete, heads, last_standing
from specdec_cli.batch.tasks import Begun
from specdec_cli.inputs.recording import InputFile, Key, stored_path
from specdec_cli.prompts import Language
from specdec_cli.store import Store, made_otherwise
from specdec_cli.targets import TRANSCRIPT, TRANSCRIPTS
from specdec_cli.transcript.schema import Transcript
from specdec_cli.transcript.terms import SUGGESTED, Terms, loaded_changes

if TYPE_CHECKING:
    from specdec_cli.transcript.schema import Models

Asked = Callable[[Line], tuple[Language, str] | None]
"""Language and instruction that this run would use for the clip of a line; None where it would leave the line alone."""


@dataclass(frozen=True)
class Identity:
    """What all lines of one output have in common: none was made with other settings or models.

    Attributes:
        output: name of the file, for messages.
        terms: of this run.
        asked: see `Asked`.
    """

    output: Path
    terms: Terms
    asked: Asked
    _made_by: dict[str, int] = field(default_factory=dict, init=False)  # models and suggestions -> first line

    def check(self, line: Line) -> None:
        """Refuses a line that this run would have made with other settings.

        Raises:
            ConfigError: names the settings with both values.
        """
        language, prompt = self.asked(line) or (None, None)
        if changed := list(replace(self.terms, language=language, prompt=prompt).changes(line.values)):
            raise made_otherwise(self.output, line.number, changed)
        models, settings = line.values["models"], line.values["settings"]
        made_by = {"models": models, "settings": {SUGGESTED: settings.get(SUGGESTED)}}
        self._made_by.setdefault(json.dumps(made_by), line.number)

    def check_models(self, models: Models, settings: Mapping[str, object]) -> None:
        """Once they are loaded: refuses lines that were made in another number format, or by other weights.

        Args:
            models, settings: as the transcripts of this run will record them.

        Raises:
            ConfigError: names both formats, both weights, or both suggestions of their checkpoints.
        """
        for made_by, number in self._made_by.items():
            if changed := list(loaded_changes(json.loads(made_by), models, settings, ("dtype", "weights"))):
                raise made_otherwise(self.output, number, changed)


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording that the output holds.

    Attributes:
        marks: of its lines that stand, by their start.
        retry: how to caption it again, if it or a segment of it failed or is missing; else None.
        message: of the last error.
    """

    marks: tuple[Mark, ...]
    retry: InputFile | None
    message: str | None = None

    @property
    def sha256(self) -> str | None:
        """Of the content that was captioned; None if it could not be read."""
        return next((mark.sha256 for mark in self.marks if mark.sha256 is not None), None)

    @property
    def begun(self) -> Begun | None:
        """The captions that it has, where some are missing."""
        places = frozenset(mark.place for mark in self.marks if mark.good and mark.place is not None)
        return Begun(self.sha256, places) if self.retry and self.sha256 and places else None


class Output:
    """An output that is open and locked. Use it as a context manager.

    Args:
        path: the file; created if it does not exist.
        check: called with each line, to refuse what does not belong to this run; None: every line will be dropped
            by `clear`.

    Raises:
        TranscriptError: another run is writing it, it cannot be written, or it holds something else.
        Whatever `check` raises.
    """

    def __init__(self, path: Path, check: Callable[[Line], None] | None) -> None:
        self._entries: dict[Key, Entry] = {}
        self._untidy = False  # lines were replaced, or those of a recording are apart
        self._store = Store(path, TRANSCRIPTS)
        try:
            if check is not None:
                last = self._read(check)
                if torn := self._store.mend():
                    # 0.1 wrote all segments of a recording at once, and does not say how many: those before it go too.
                    if last and _of_one(last[-1], torn):
                        self._store.cut(last[0].offset)
                    self._read(None)
                if self._untidy:
                    self._tidy()
        except BaseException:
            self._store.__exit__()
            raise

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._store:
            if self._untidy and kind is None:
                self._read(None)
                self._tidy()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """What the output held of a recording when it was opened."""
        return self._entries.get(key)

    def entries(self) -> Iterator[tuple[Key, Entry]]:
        """Everything that it held when it was opened."""
        return iter(self._entries.items())

    def clear(self) -> None:
        """Drops all that the file holds."""
        self._store.cut()
        self._entries.clear()

    def append(self, key: Key, transcripts: Sequence[Transcript]) -> None:
        """Appends lines of one recording, all of them or none, whatever ends the process.

        Raises:
            TranscriptError: the disk is full, for example.
        """
        self._store.append(transcript.to_json() for transcript in transcripts)
        pieces = any(transcript.pieces is not None for transcript in transcripts)
        self._untidy = self._untidy or pieces or key in self._entries

    def _read(self, check: Callable[[Line], None] | None) -> list[Line]:
        """Takes in who is there; returns the last lines if they may be segments that were written at once."""
        last: list[Line] = []
        found: dict[Key, _Found] = {}
        for line in heads(self._store.path, self._store.lines()):
            if check is not None:
                check(line)
            last = [*last, line] if last and _follows(last[-1], line) else [line]
            follows = line.key == next(reversed(found), None)
            own = found[line.key] = found.pop(line.key) if line.key in found else _Found()
            own.apart = own.apart or bool(own.marks and not follows)
            own.marks.append(Mark.of(line))
            own.again = _again(line)
            if line.values.get("error"):
                own.message = line.values["error"]["message"]
        self._entries = {key: own.entry() for key, own in found.items()}
        self._untidy = any(own.apart or self._entries[key].marks != tuple(own.marks) for key, own in found.items())
        return last

    def _tidy(self) -> None:
        """Drops the lines that others replace, and puts those of a recording together."""
        self._store.compact(mark.offset for entry in self._entries.values() for mark in entry.marks)
        self._untidy = False


def _follows(before: Line, line: Line) -> bool:
    """Whether two lines may be segments of one recording, as 0.1 wrote them."""
    start_s, earlier_s = line.values.get("start_s"), before.values.get("start_s")
    if start_s is None or earlier_s is None or line.values.get("pieces") is not None:
        return False
    return bool(before.key == line.key and start_s > earlier_s)


def _of_one(last: Line, torn: bytes) -> bool:
    """Whether a torn line may be another segment of the recording of the line before it, as 0.1 wrote them."""
    if last.values.get("start_s") is None or last.values.get("pieces") is not None:
        return False
    head = TRANSCRIPT + json.dumps(last.values["file"], ensure_ascii=False)[1:].encode("utf-8", "backslashreplace")
    return torn.startswith(head) or head.startswith(torn)


@dataclass(slots=True)
class _Found:
    """All lines of a recording: their marks in the order of the file, and what `Entry` says of the last ones."""

    marks: list[Mark] = field(default_factory=list)
    again: InputFile | None = None
    message: str | None = None
    apart: bool = False  # whether lines of others stand between

    def entry(self) -> Entry:
        """Of the lines that stand."""
        marks = last_standing(self.marks)
        return Entry(marks, None if complete(marks) else self.again, self.message)


def _again(line: Line) -> InputFile:
    """How to caption the recording of a line again."""
    values = line.values
    again = InputFile(
        stored_path(values["file"]), id=values.get("id"), language=values["language"], prompt=values["prompt"]
    )
    if again.id is not None and values.get("pieces") is None:  # a part, if it is one
        again = replace(again, start_s=values.get("start_s"), end_s=values.get("end_s"))
    return again
