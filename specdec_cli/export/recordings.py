"""The captioned pieces of each recording, as the lines of a transcript file have them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self

from specdec_cli.errors import ConfigError, WrongFileError
from specdec_cli.inputs.find import common_folder, relative_name
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.labels import Lexicon
from specdec_cli.text import one_line
from specdec_cli.transcript.lines import Line, latest, stored_lines
from specdec_cli.transcript.records import TranscriptHead
from specdec_cli.written import digest

_KINDS: Final = ("speaker", "text", "channel", "label", "emotions", "measured", "needs", "flags", "agrees", "score")
_LAST_S: Final = 253_402_300_799.0  # the end of the year 9999, after which there are no dates
_NOT_SHORT: Final = ("caption", "file", "start", "end", "speaker", "text", "channel", "emotions", "flags")


@dataclass(frozen=True, slots=True)
class CaptionedPiece:
    """A captioned piece of a recording, or all of it."""

    start_ms: int  # in the recording, rounded, so that pieces that touch in the transcript touch here
    end_ms: int
    caption: str  # as one line, like the speaker
    speaker: str | None
    details: Mapping[str, Any]  # the rest of its transcript, see `details`
    line: Line

    @classmethod
    def of(cls, line: Line, transcripts: Path) -> CaptionedPiece:
        """The piece of a line that has a caption; raises TranscriptError if it lacks the times of the piece."""
        head, start = line.head, line.head.start_s or 0.0
        end = head.duration_s if head.end_s is None else head.end_s
        if end is None or start >= end:
            raise WrongFileError(
                f"{transcripts}:{line.number}: {head.file} does not say where its piece begins and ends.",
                hint="Delete that line, or caption the recording again: start_s and end_s, or duration_s, say so.",
            )
        times = round(1000 * start), max(round(1000 * start) + 1, round(1000 * end))
        return cls(*times, one_line(head.caption or ""), one_line(head.speaker or "") or None, details(head), line)


@dataclass(frozen=True, slots=True)
class CaptionedRecording:
    """A recording and its captioned pieces, by time."""

    path: str  # absolute; to be opened
    name: str  # its place below the folder of all recordings, without suffix; no two have the same, even without case
    pieces: tuple[CaptionedPiece, ...]  # at least one
    duration_s: float  # of all of it, from its transcripts; else up to the end of the last piece
    made: datetime  # when its transcript was last written

    @classmethod
    def of(cls, path: str, name: str, lines: Sequence[Line], transcripts: Path, made: datetime) -> Self:
        """A recording of its lines, all of which have captions; errors as in `CaptionedPiece.of`."""
        pieces = _joined(CaptionedPiece.of(line, transcripts) for line in lines)
        end_s = max(piece.end_ms for piece in pieces) / 1000
        longest_s = max(line.head.recording_s or line.head.duration_s or 0.0 for line in lines)
        duration_s = longest_s if longest_s > end_s - 0.001 else end_s  # the end was rounded
        return cls(path, name, pieces, duration_s, made)


@dataclass(frozen=True, slots=True)
class Stored:
    """The lines of each clip in a transcript file; those that a later run replaced are left out.

    Iterating it gives the recordings that have a caption, in the same order.
    """

    transcripts: Path
    base: str  # absolute folder that names are relative to
    runs: Mapping[Key, Sequence[Line]]  # clip -> its lines, without settings but for the track
    replaced: int  # how many clips were captioned again later on

    @classmethod
    def read(
        cls,
        transcripts: Path,
        base: str | None = None,
        inputs: Iterable[InputFile] = (),
        *,
        mode: str | None = None,
        lexicon: Lexicon | None = None,
    ) -> Stored:
        """Reads the lines of `mode`, clips in the order of `inputs` and then of the file.

        Without `base` it is the deepest folder that holds all recordings. `lexicon` finds the classes that captions
        name, for lines without labels; None: the shipped one.

        Raises:
            TranscriptError: the file holds something other than transcripts, or cannot be read.
            ConfigError: a clip has captions in several modes.
        """
        words, found = lexicon or Lexicon.shipped(), dict[Key, list[Line]]()
        for line in stored_lines(transcripts):
            head, lines = line.head, found.setdefault(line.key, [])
            if mode not in (None, head.mode):
                continue
            if (other := next(iter(lines), line).head.mode) != head.mode:
                raise ConfigError(
                    f"{transcripts} has captions of {head.file} in several modes, e.g. {other} and {head.mode}.",
                    hint=f"Choose one with --only-mode {other}, for example.",
                )
            known: dict[str, Any] = {
                "settings": {name: head.settings.get(name) for name in ("track", "keep_no_speech")}
            }
            if not head.has_speech:
                known |= dict.fromkeys(("labels", "emotions", "scores", "needs_review", "agrees"))
            elif head.labels is None and head.good:
                text = head.caption or "", head.language
                known |= {"labels": words.labels(*text), "emotions": words.emotions(*text)}
            lines.append(replace(line, head=head.model_copy(update=known)))
        order = dict.fromkeys([*(item.key for item in inputs if item.key in found), *found])
        runs = {key: latest(found[key]) for key in order if found[key]}
        if base is None:
            base = common_folder([os.path.dirname(key.path) for key in runs])
        return cls(transcripts, base, runs, sum(len(runs[key]) < len(found[key]) for key in runs))

    def only(self, keys: Iterable[Key]) -> Stored:
        """The lines of these clips alone."""
        return replace(self, runs={key: self.runs[key] for key in keys if key in self.runs})

    def __iter__(self) -> Iterator[CaptionedRecording]:
        """The recordings; raises TranscriptError if a line lacks the times of its piece."""
        clips: dict[str, list[Line]] = {}
        for key, run in self.runs.items():
            clips.setdefault(key.path, []).extend(line for line in run if line.head.good)
        names = _names(list(clips), self.base)
        known_s = min(max(self.transcripts.stat().st_mtime, 0.0), _LAST_S)
        made = datetime.fromtimestamp(known_s, UTC)
        for path, lines in clips.items():
            if lines:
                yield CaptionedRecording.of(path, names[path], lines, self.transcripts, made)


def _joined(pieces: Iterable[CaptionedPiece]) -> tuple[CaptionedPiece, ...]:
    """Pieces by time; one that begins within 1 ms of the end of the one before begins there."""
    found: list[CaptionedPiece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.start_ms, piece.end_ms)):
        end_ms = found[-1].end_ms if found else 0
        near = abs(piece.start_ms - end_ms) <= 1 and end_ms < piece.end_ms
        found.append(replace(piece, start_ms=end_ms) if near else piece)
    return tuple(found)


def _names(paths: Sequence[str], base: str) -> dict[str, str]:
    """A name for each path that no other has: without its suffix, or else with it, or else with a digest."""
    names = {path: relative_name(path, base) for path in paths}
    found = {path: os.path.splitext(name)[0] for path, name in names.items()}
    with_digest = {path: f"{name}-{digest(os.fsencode(path))}" for path, name in names.items()}
    for longer in (names, with_digest):
        times = Counter(map(_folded, found.values()))
        found = {path: longer[path] if times[_folded(name)] > 1 else name for path, name in found.items()}
    return found


def _folded(name: str) -> str:
    return "_".join(name.casefold().split())


def details(head: TranscriptHead) -> dict[str, Any]:
    """All of a transcript but its caption, as a row: name of a column -> value.

    `speaker`, `text`, `channel` from 1, `needs_review`; `flags` with spaces, `emotions` with commas between;
    `label_A`, `agrees_A` and `score_A_CLASS` of each attribute A; `measured_NAME`.
    """
    names = ("speaker", "text", "channel", "needs_review")
    found: dict[str, Any] = {name: value for name in names if (value := getattr(head, name)) is not None}
    found |= {"flags": " ".join(head.flags)} if head.flags else {}
    found |= {} if head.emotions is None else {"emotions": ", ".join(head.emotions)}
    measured = asdict(head.measured) if head.measured else {}
    for kind, values in (("label", head.labels), ("agrees", head.agrees), ("measured", measured)):
        found |= {f"{kind}_{name}": value for name, value in (values or {}).items()}
    for name, score in (head.scores or {}).items():
        found |= {f"score_{name}_{class_}": value for class_, value in {**score.classes, "other": score.other}.items()}
    return found


def columns(found: Iterable[Iterable[str]]) -> list[str]:
    """Every column of several `details`, those of one kind together."""
    return sorted(dict.fromkeys(chain.from_iterable(found)), key=lambda name: _KINDS.index(name.partition("_")[0]))


def short_name(column: str) -> str:
    """The name of a column of `details` beside one called `caption`: a class has the name of its attribute."""
    name = one_line(column.removeprefix("label_"))
    return column if name in _NOT_SHORT and name != column else name
