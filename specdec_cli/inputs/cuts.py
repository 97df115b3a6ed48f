"""Where to cut recordings, from what other tools wrote: RTTM, TextGrid, SRT, WebVTT, WhisperX JSON, and tables.

Subtitles have an own reader, because libraries skip cues that they cannot read, and name no lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from specdec_cli.audio.paths import shown
from specdec_cli.audio.samples import Cut
from specdec_cli.config.problems import show
from specdec_cli.errors import CutsError, ReferencesError
from specdec_cli.inputs.table_files import FILES, SPEAKERS, TEXTS, one_line, parse_json, read_table, read_text, span
from specdec_cli.inputs.textgrid import interval_tiers

_Named = tuple[str | None, Cut]
"""The recording that a cut belongs to, where its file says so, and the cut."""

_STARTS: Final = ("start", "start_s", "start_time", "begin", "onset", "tmin")
_ENDS: Final = ("end", "end_s", "end_time", "stop", "tmax")
_LENGTHS: Final = ("duration", "duration_s", "dur")

_CLOCK: Final = r"(?:\d+:)?\d+:\d+(?:[.,]\d+)?"
_ARROW: Final = re.compile(rf"\s*({_CLOCK})\s+-->\s+({_CLOCK})(?:\s.*)?")
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s{1,9}([^<>]{1,200})>")
_PREFIX: Final = re.compile(r"\[([^\]\n]{1,40})\]:\s+")  # as WhisperX writes speakers into subtitles
_TAG: Final = re.compile(r"<[^<>\n]{0,500}>|\{\\[^{}\n]{0,500}\}")  # bounded: a run of < takes linear time

_PARTS_OF_UTTERANCES: Final = re.compile(r"\b(words?|phones?|phonemes?|syllables?)$", re.IGNORECASE)
_NO_SPEAKER: Final = frozenset({"text", "transcript", "utterance", "utterances", "segments", "sentences", "silences"})
_SILENT: Final = frozenset({"", "sil", "silent", "silence", "sp", "<sil>", "<p:>", "#"})


@dataclass(frozen=True)
class Cuts:
    """The cuts of a file, or of a folder with a file for each recording.

    Attributes:
        path: the file or folder.
    """

    path: Path
    _cuts: Sequence[_Named] = field(default=(), repr=False)

    @classmethod
    def read(cls, path: Path) -> Cuts:
        """Reads a file; the files of a folder are read when their recordings are.

        Raises:
            ReferencesError: it cannot be read, or is malformed; names the line.
        """
        if path.is_dir():
            return cls(path)
        return cls(path, _read(path))

    def of(self, recording: str) -> tuple[Cut, ...]:
        """The cuts of a recording, found by the name of its file, with or without the ending.

        Those of a file that names no recordings belong to every one.

        Raises:
            CutsError: there are none.
            ReferencesError: the folder's file for it is malformed.
        """
        name = Path(recording)
        cuts = _read(self._beside(name)) if self.path.is_dir() else self._cuts
        found = tuple(cut for of, cut in cuts if of is None or _same(of, name))
        if not found:
            message = f"{shown(str(self.path))} has no cuts of {shown(recording)}."
            raise CutsError(message, hint="Recordings are found by the names of their files.")
        return found

    def _beside(self, recording: Path) -> Path:
        """The file of a folder that is called like a recording."""
        stems = (recording.stem, recording.name)
        found = [path for stem in stems for ending in _READERS if (path := self.path / f"{stem}{ending}").is_file()]
        found = [path for path in found if path.name != recording.name]
        if len(found) == 1:
            return found[0]
        several = f"{len(found)} files" if found else "no file"
        message = f"{shown(str(self.path))} has {several} of cuts for {shown(recording.name)}."
        raise CutsError(message, hint=f"Name one {shown(recording.stem)}{' or '.join(_READERS)}.")


def _same(named: str, recording: Path) -> bool:
    name = Path(named.replace("\\", "/")).name
    return name in (recording.name, recording.stem) or Path(name).stem == recording.stem


def _read(path: Path) -> list[_Named]:
    read = _READERS.get(path.suffix.lower())
    if read is None:
        message = f"{path} is no file of cuts that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=f"Name it {', '.join(_READERS)} after what it holds, or give a folder.")
    if not (found := list(read(path))):
        raise ReferencesError(f"{path} has no cuts.", hint="It needs a start and an end for each piece.")
    return found


def _cut(
    place: str, start: object, end: object = None, speaker: object = None, text: object = None, *, length: object = None
) -> Cut:
    """A cut; its times, and errors, are those of `span`."""
    return Cut(*span(place, start, end, length=length), one_line(speaker), one_line(text), place)


def _rttm(path: Path) -> Iterator[_Named]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        fields, place = line.split(), f"{path}, line {number}"
        if not fields or fields[0].startswith(";;") or (fields[0] != "SPEAKER" and fields[0].isupper()):
            continue
        if fields[0] != "SPEAKER" or len(fields) < 8:
            hint = "A line is: SPEAKER recording channel start duration <NA> <NA> speaker <NA> <NA>."
            raise ReferencesError(f"{place}: this is no line of RTTM.", hint=hint)
        speaker = None if fields[7] == "<NA>" else fields[7]
        yield fields[1], _cut(place, fields[3], speaker=speaker, length=fields[4])


def _textgrid(path: Path) -> Iterator[_Named]:
    """Intervals of all tiers but those of words and sounds; a tier is called like its speaker, or `speaker` itself."""
    found: dict[tuple[float, float], Cut] = {}
    for tier, intervals in interval_tiers(path):
        name = tier.strip()
        if _PARTS_OF_UTTERANCES.search(name):
            continue
        for line, start, end, label in intervals:
            if label.strip().lower() in _SILENT:
                continue
            who, text = (label, None) if name.lower() == "speaker" else (name, label)
            speaker = None if name.lower() in _NO_SPEAKER else who
            cut = _cut(f"{path}, line {line}", start, end, speaker, text)
            known = found.setdefault((cut.start_s, cut.end_s), cut)
            if name.lower() == "speaker":
                found[cut.start_s, cut.end_s] = replace(known, speaker=cut.speaker)
    yield from ((None, cut) for cut in found.values())


def _subtitles(path: Path) -> Iterator[_Named]:
    """SRT and WebVTT; a speaker is the voice of a cue, or what stands as `[NAME]: ` before its text."""
    lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
    number = 0
    while number < len(lines):
        number += 1
        if "-->" not in (line := lines[number - 1]):
            continue
        place = f"{path}, line {number}"
        found = _ARROW.fullmatch(line)
        if found is None:
            raise ReferencesError(f"{place}: no times: {show(line[:80])}.", hint="Write 00:00:01.500 --> 00:00:03.000.")
        said: list[str] = []
        while number < len(lines) and lines[number].strip():
            said.append(lines[number])
            number += 1
        text = "\n".join(said)
        speaker = _VOICE.search(text) or _PREFIX.match(text)
        bare = _TAG.sub("", _PREFIX.sub("", text, count=1))
        yield None, _cut(place, found[1], found[2], speaker and speaker[1], bare)


def _json(path: Path) -> Iterator[_Named]:
    """The segments of Whisper and WhisperX, or a list of such."""
    tree = parse_json(path, read_text(path))
    segments: Any = tree.get("segments") if isinstance(tree, dict) else tree
    if not isinstance(segments, list):
        raise ReferencesError(f"{path} has no list of segments.", hint='Write {"segments": [{"start": ..., ...}]}.')
    for number, segment in enumerate(segments, 1):
        place = f"{path}, segment {number}"
        if not isinstance(segment, dict):
            raise ReferencesError(f"{place}: an object was expected.", hint="Each has a start and an end.")
        yield None, _cut(place, *map(segment.get, ("start", "end", "speaker", "text")))


def _table(path: Path) -> Iterator[_Named]:
    table = read_table(path, any_bytes=True)
    start, end, length = (table.first(names) for names in (_STARTS, _ENDS, _LENGTHS))
    if start is None or (end is None and length is None):
        message = f"{path} has no columns start and end; there are {show(', '.join(table.columns))}."
        raise ReferencesError(message, hint="Give them in seconds; columns file, speaker and text are read too.")
    file, speaker, text = (table.first(names) for names in (FILES, SPEAKERS, TEXTS))

    for row in table.rows:
        times = {"end": row.single(end)} if end else {"length": row.single(length)}
        cut = _cut(row.place, row.single(start), speaker=row.single(speaker), text=row.single(text), **times)
        yield row.single(file), cut


_READERS: Final[dict[str, Callable[[Path], Iterator[_Named]]]] = {
    ".rttm": _rttm,
    ".TextGrid": _textgrid,
    ".textgrid": _textgrid,
    ".srt": _subtitles,
    ".vtt": _subtitles,
    ".json": _json,
    ".csv": _table,
    ".tsv": _table,
}
"""Ending of a file of cuts -> what reads it."""
