"""The output of a batch: who is in it already, and appending whole recordings to it, by one run at a time.

Lines stand in the order in which recordings were finished, those of one recording together, and are never changed. A
recording that is captioned again, because it had failed or has changed, gets new lines at the end; the ones they
replace are dropped when the file is closed, or opened the next time if the run was killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.errors import TranscriptError
from specdec_cli.inputs.recording import InputFile, Key, stored_path
from specdec_cli.prompts import Language
from specdec_cli.store import Store, StoredLine, made_otherwise, read_lines
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript.schema import Transcript, file_name
from specdec_cli.transcript.terms import SUGGESTED, Terms, loaded_changes

if TYPE_CHECKING:
    from specdec_cli.transcript.schema import Models

_ROUNDS: Final = b',"rounds":['
"""What stands behind all that is read here. Quotes inside a text are escaped, so no text can hold it."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("file", "language", "prompt", "mode"), (str,)),
    **dict.fromkeys(("id", "sha256", "caption", "speaker", "text"), (str, NoneType)),
    **dict.fromkeys(("models", "settings"), (dict,)),
    **dict.fromkeys(("labels", "scores", "measured", "agrees", "error"), (dict, NoneType)),
    **dict.fromkeys(("start_s", "end_s", "duration_s"), (int, float, NoneType)),
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
        offset: of its first line, bytes.
        sha256: of the content that was captioned; None if it could not be read.
        retry: how to caption it again, if it or a segment of it failed; else None.
        message: of the first error.
    """

    offset: int
    sha256: str | None
    retry: InputFile | None
    message: str | None = None


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
        self._superseded = False
        self._store = Store(path, TRANSCRIPTS)
        try:
            if check is not None:
                last = self._read(check)
                if self._store.mend():
                    # The torn line may be one of several segments that were written together: those before it go too.
                    if last and last[-1].start_s is not None:
                        self._store.cut(last[0].offset)
                    self._superseded = False
                    self._read(None)
                self._compact()
        except BaseException:
            self._store.__exit__()
            raise

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._store:
            if self._superseded and kind is None:
                self._read(None)
                self._compact()

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
        """Appends the lines of one recording, all of them or none, whatever ends the process.

        Raises:
            TranscriptError: the disk is full, for example.
        """
        self._store.append(transcript.to_json() for transcript in transcripts)
        self._superseded = self._superseded or key in self._entries

    def groups(self) -> Iterator[list[Line]]:
        """The lines of each run over a recording, in the order of the file."""
        return groups(_heads(self._store.path, self._store.lines()))

    def _read(self, check: Callable[[Line], None] | None) -> list[Line]:
        """Takes in who is there, of several groups of lines for one recording the last; returns the last of all."""
        self._entries.clear()
        group: list[Line] = []
        for group in self.groups():
            if check is not None:
                for line in group:
                    check(line)
            key = group[0].key
            self._superseded = self._superseded or key in self._entries
            self._entries[key] = _entry(group)
        return group

    def _compact(self) -> None:
        """Drops the lines that others replace."""
        if self._superseded:
            offsets = {entry.offset for entry in self._entries.values()}
            kept = {line.offset for group in self.groups() if group[0].offset in offsets for line in group}
            self._store.compact(lambda line: line.offset in kept)
            self._superseded = False


def stored_groups(path: Path, offsets: Sequence[int] | None = None) -> Iterator[list[Line]]:
    """The lines of each run over a recording, of an output that need not be locked.

    Args:
        path: the output.
        offsets: of the groups wanted, in the order wanted; None: all, in the order of the file.

    Raises:
        TranscriptError: it holds something else.
    """
    if offsets is None:
        yield from groups(_heads(path, read_lines(path)))
    for offset in offsets or ():
        yield next(groups(_heads(path, read_lines(path, offset))))


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


def _heads(path: Path, lines: Iterator[StoredLine]) -> Iterator[Line]:
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


def _entry(group: Sequence[Line]) -> Entry:
    first = group[0].values
    if all(line.good for line in group):
        return Entry(group[0].offset, first.get("sha256"), None)
    path, language = stored_path(first["file"]), first["language"]
    again = InputFile(path, id=first.get("id"), language=language, prompt=first["prompt"])
    message = next((line.values["error"]["message"] for line in group if line.values.get("error")), None)
    return Entry(group[0].offset, first.get("sha256"), again, message)
