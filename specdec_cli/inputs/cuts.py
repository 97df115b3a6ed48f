"""Where to cut recordings, from what other tools wrote: RTTM, TextGrid, SRT, WebVTT, WhisperX JSON, and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from specdec_cli.audio.paths import shown
from specdec_cli.audio.samples import Cut
from specdec_cli.config.problems import show
from specdec_cli.errors import CutsError, ReferencesError
from specdec_cli.inputs.exported import cuts_of_eaf, cuts_of_tiers, cuts_of_vtt, without_captions
from specdec_cli.inputs.table_files import FILES, SPEAKERS, TEXTS, one_line, read_table, read_text, span

_Named = tuple[str | None, Cut]
"""The recording that a cut belongs to, where its file says so, and the cut."""

_STARTS: Final = ("start", "start_s", "start_time", "begin", "onset", "tmin")
_ENDS: Final = ("end", "end_s", "end_time", "stop", "tmax")
_LENGTHS: Final = ("duration", "duration_s", "dur")

_CLOCK: Final = r"(?:\d+:)?\d+:\d+(?:[.,]\d+)?"
_ARROW: Final = re.compile(rf"\s*({_CLOCK})\s+-->\s+({_CLOCK})(?:\s.*)?")
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s{1,9}([^<>]{1,200})>")
_PREFIX: Final = re.compile(r"\[([^\]\n]{1,255})\]:\s+")  # as WhisperX writes speakers into subtitles
_TAG: Final = re.compile(r"<[^<>\n]{0,500}>|\{\\[^{}\n]{0,500}\}")  # bounded: a run of < takes linear time

_GRID_VALUE: Final = re.compile(r"![^\n]*|(\"(?:[^\"]|\"\")*\"|(?<!\S)(?:[-+]?\d[\d.eE+-]*|<exists>|<absent>)(?!\S))")
_PARTS_OF_UTTERANCES: Final = re.compile(r"\b(words?|phones?|phonemes?|syllables?)$", re.IGNORECASE)
_NO_SPEAKER: Final = frozenset({"text", "transcript", "utterance", "utterances", "segments", "sentences", "silences"})
_NOBODY: Final = frozenset({"<NA>", "unknown", "no_speech"})  # the last two in exports
_SILENT: Final = frozenset({"", "sil", "silent", "silence", "sp", "<sil>", "<p:>", "#"})


@dataclass(frozen=True)
class Cuts:
    """The cuts of a file, or of a folder with a file for each recording."""

    path: Path
    _cuts: Sequence[_Named] = field(default=(), repr=False)

    @classmethod
    def read(cls, path: Path) -> Cuts:
        """Reads a file; the files of a folder are read when their recordings are.

        Raises:
            ReferencesError: it cannot be read, or is malformed; names the line.
        """
        return cls(path) if path.is_dir() else cls(path, _read(path))

    def of(self, recording: str) -> tuple[Cut, ...]:
        """The cuts of a recording, found by the name of its file, with or without the ending.

        Those of a file that names no recordings belong to every one.

        Raises:
            CutsError: there are none, or in a folder several files of them.
            ReferencesError: the folder's file for it is malformed.
        """
        name, cuts = Path(recording), self._cuts
        if self.path.is_dir():
            called = [self.path / f"{stem}{ending}" for stem in (name.stem, name.name) for ending in _READERS]
            beside = [path for path in called if path.is_file() and path.name != name.name]
            if len(beside) != 1:
                message = f"{shown(str(self.path))} has {len(beside)} files of cuts for {shown(name.name)}."
                raise CutsError(message, hint=f"Name one {shown(name.stem)}{' or '.join(_READERS)}.")
            cuts = _read(beside[0])
        found = tuple(cut for of, cut in cuts if of is None or _same(Path(of), name))
        if not found:
            message = f"{shown(str(self.path))} has no cuts of {shown(recording)}."
            raise CutsError(message, hint="Recordings are found by the names of their files.")
        return found


def _same(named: Path, recording: Path) -> bool:
    return named.name in (recording.name, recording.stem) or named.stem == recording.stem


def _read(path: Path) -> list[_Named]:
    read = _READERS.get(path.suffix.lower())
    if read is None:
        message = f"{path} is no file of cuts that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=f"Name it {', '.join(_READERS)} after what it holds, or give a folder.")
    if not (found := list(read(path))):
        raise ReferencesError(f"{path} has no cuts.", hint="It needs a start and an end for each piece.")
    return found


def _rttm(path: Path) -> Iterator[_Named]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        fields, place = line.split(), f"{path}, line {number}"
        if fields[:1] != ["SPEAKER"]:
            continue
        if len(fields) < 8:
            hint = "A line is: SPEAKER recording channel start duration <NA> <NA> speaker <NA> <NA>."
            raise ReferencesError(f"{place}: this is no line of RTTM.", hint=hint)
        speaker = None if fields[7] in _NOBODY else fields[7]
        yield fields[1], Cut(*span(place, fields[3], length=fields[4]), speaker, place=place)


def _textgrid(path: Path) -> Iterator[_Named]:
    """Intervals of all tiers but those of words and sounds; a tier is called like its speaker, or `speaker` itself."""
    found: dict[tuple[float, float], Cut] = {}
    captioned, others = cuts_of_tiers(path, list(_intervals(path)))
    yield from ((None, cut) for cut in captioned)
    for tier, start, end, label in others:
        name = tier.strip().lower()
        if _PARTS_OF_UTTERANCES.search(name) or label.strip().lower() in _SILENT:
            continue
        place = f"{path}, {show(label[:80])} of {show(tier[:80])}"
        who, text = (label, None) if name == "speaker" else (tier, label)
        speaker = None if name in _NO_SPEAKER else one_line(who)
        cut = Cut(*span(place, start, end), speaker, one_line(text), place)
        known = found.setdefault((cut.start_s, cut.end_s), cut)
        if name == "speaker":
            found[cut.start_s, cut.end_s] = replace(known, speaker=speaker)
    yield from ((None, cut) for cut in found.values())


def _intervals(path: Path) -> Iterator[tuple[str, float, float, str]]:
    """Tier, start and end in seconds, and label of each interval of a TextGrid, long or short, in Praat's order.

    Values are numbers, quoted texts and flags between white space; all else (`xmin =`, `item [1]:`, `! a comment`) is
    decoration. Source: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
    """
    values = (found[1] for found in _GRID_VALUE.finditer(read_text(path)) if found[1])

    def text() -> str:
        return next(values)[1:-1].replace('""', '"')

    try:
        if (text(), text()) != ("ooTextFile", "TextGrid"):
            raise ValueError("its first lines are others")
        tiers = [next(values) for _ in range(4)]  # start, end, <exists>, number of tiers
        for _ in range(int(tiers[3])):
            kind, name, _start, _end, count = text(), text(), next(values), next(values), int(next(values))
            for _ in range(count):
                start = float(next(values))
                if kind == "IntervalTier":
                    yield name, start, float(next(values)), text()
                else:
                    text()  # of a point
    except (StopIteration, ValueError) as error:
        reason = "it ends early" if isinstance(error, StopIteration) else str(error)
        message = f"{path} is no TextGrid that can be read: {reason}."
        raise ReferencesError(message, hint="Save it with Praat again, as a text file.") from error


def _eaf(path: Path) -> Iterator[_Named]:
    return ((None, cut) for cut in cuts_of_eaf(path, read_text(path)))


def _vtt(path: Path) -> Iterator[_Named]:
    own = cuts_of_vtt(path, read_text(path))
    return _subtitles(path) if own is None else ((None, cut) for cut in own)


def _srt(path: Path) -> Iterator[_Named]:
    return ((None, cut) for cut in without_captions(path, [cut for _, cut in _subtitles(path, voices=False)]))


def _subtitles(path: Path, *, voices: bool = True) -> Iterator[_Named]:
    """SRT and WebVTT; a speaker is the voice of a cue, or what stands as `[NAME]: ` before its text.

    Libraries skip cues that they cannot read, and name no lines.
    """
    lines = enumerate((line.rstrip("\r") for line in read_text(path).split("\n")), 1)
    for number, line in lines:
        if "-->" not in line:
            continue
        place = f"{path}, line {number}"
        times = _ARROW.fullmatch(line)
        if times is None:
            raise ReferencesError(f"{place}: no times: {show(line[:80])}.", hint="Write 00:00:01.500 --> 00:00:03.000.")
        text = "\n".join(takewhile(str.strip, (said for _, said in lines)))
        speaker = (_VOICE.search(text) if voices else None) or _PREFIX.match(text)
        said = text[prefix.end() :] if (prefix := _PREFIX.match(text)) else text
        bare = one_line(_TAG.sub("", said))
        yield None, Cut(*span(place, times[1], times[2]), one_line(speaker[1]) if speaker else None, bare, place)


def _table(path: Path) -> Iterator[_Named]:
    """Tables, and the segments of Whisper and WhisperX, which are one."""
    table = read_table(path)
    start, end, length = (table.first(names) for names in (_STARTS, _ENDS, _LENGTHS))
    if start is None or (end is None and length is None):
        message = f"{path} has no columns start and end; there are {show(', '.join(table.columns))}."
        raise ReferencesError(message, hint="Give them in seconds; columns file, speaker and text are read too.")
    file, speaker, text = (table.first(names) for names in (FILES, SPEAKERS, TEXTS))
    for row in table.rows:
        times = {"end": row.single(end)} if end else {"length": row.single(length)}
        said = one_line(row.single(speaker)), one_line(row.single(text))
        yield row.single(file), Cut(*span(row.place, row.single(start), **times), *said, row.place)


_READERS: Final[dict[str, Callable[[Path], Iterator[_Named]]]] = {
    ".rttm": _rttm,
    ".TextGrid": _textgrid,
    ".textgrid": _textgrid,
    ".eaf": _eaf,
    ".srt": _srt,
    ".vtt": _vtt,
    **dict.fromkeys((".json", ".csv", ".tsv"), _table),
}
"""Ending of a file of cuts -> what reads it."""
