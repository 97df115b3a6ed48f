"""Labelled intervals of Praat's TextGrid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from praatio.utilities.errors import PraatioException
from praatio.utilities.textgrid_io import parseTextgridStr

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Entry
from specdec_cli.inputs.moments import moment, required_moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import cell_text, read_text
from specdec_cli.text import show

_HEAD: Final = re.compile(r'\s*File type = "ooTextFile[^"]*"\s+(?:Object class = )?"TextGrid"\s*')
_NUMBER: Final = re.compile(r"^([ \t]*(?:xmin|xmax|number)) ?= ?(\S+)[ \t]*$", re.MULTILINE)
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_PARTS_OF_UTTERANCES: Final = re.compile(r"(?:words?|phones?|phonemes?|syllables?)$", re.IGNORECASE)
_TEXT: Final = re.compile(
    r"(?:text|transcript|transcription|utterances?|sentences?|segments|silences)(?: \(\d+\))?", re.IGNORECASE
)
_OF_SPEAKER: Final = re.compile(r"(.+) - (\w+)(?: \(\d+\))?", re.DOTALL)
_CAPTION: Final = re.compile(r"(?:.+ - )?caption(?: \(\d+\))?", re.DOTALL)
_SPEAKERS: Final = "speaker"  # a tier whose labels are speakers
_SILENT: Final = frozenset({"", "sil", "silent", "silence", "sp", "<sil>", "<p:>", "#"})
_AGAIN: Final = "Open it in Praat and save it again, as a text file."


def textgrid(path: Path, skips: Skips) -> Iterator[Entry]:
    """The labelled intervals of all tiers but those of words and sounds.

    A tier is called like its speaker, or `ANN - text`; the labels of a tier `speaker` are speakers. Of a file with
    tiers `caption`, as specdec exports it, only tiers `text` are read.
    """
    tiers = [(tier["name"].strip(), tier["entries"]) for tier in _tiers(path, skips) if tier["class"] == "IntervalTier"]
    own = any(_CAPTION.fullmatch(name) for name, _ in tiers)
    passed = {name for name, _ in tiers if _PARTS_OF_UTTERANCES.search(name) or (own and not _is_text(name))}
    speakers = {interval[:2]: interval[2] for name, found in tiers if name == _SPEAKERS for interval in found}
    named, known = set[object](), set[object]()
    for name, intervals in sorted(tiers, key=lambda tier: tier[0] == _SPEAKERS):
        for start, end, label in intervals if name not in passed else ():
            if label.strip().casefold() in _SILENT or (name == _SPEAKERS and (start, end) in named):
                continue
            place, said = f"{path}, {show(label[:80])} of {show(name[:80])}", cell_text(label)
            who, text = (said, None) if name == _SPEAKERS else (cell_text(_speaker(name)), said)
            if who is None and (start, end) in speakers:
                who = cell_text(speakers[start, end])
                named.add((start, end))
            if (start, end, who) in known:
                skips.leave_out(place, "the speaker has another interval with these times")
            elif (part := span(place, skips, required_moment(start), required_moment(end))) is not None:
                known.add((start, end, who))
                yield Entry(place, speaker=who, text=text, start_s=part[0], end_s=part[1])
    if passed and not known:
        names = ", ".join(map(show, sorted(passed)[:3]))
        hint = "Tiers of words, phones and captions are passed over: rename a tier that holds utterances."
        skips.require_some(None, f"{path} has no cuts: its tiers are {names}.", hint)


def _is_text(name: str) -> bool:
    of = _OF_SPEAKER.fullmatch(name)
    return _TEXT.fullmatch(of[2] if of else name) is not None


def _speaker(name: str) -> str | None:
    """The speaker that a tier is called after."""
    if _TEXT.fullmatch(name):
        return None
    of = _OF_SPEAKER.fullmatch(name)
    return of[1] if of else name


def _tiers(path: Path, skips: Skips) -> list[dict[str, Any]]:
    """The tiers of a TextGrid in the long or the short format, as praatio reads it.

    praatio skips what it does not expect: several values on a line, a minus, the end of a broken file. Therefore
    its labels are counted. It does not read numbers like 1e-05 and 0,7.

    Source: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html

    Raises:
        ReferencesError: it is not a TextGrid in one of these formats, or praatio read less than all of it.
    """
    text = read_text(path, lenient=True).replace("\r\n", "\n")
    if not (head := _HEAD.match(text)):
        raise ReferencesError(f"{path} cannot be read as a TextGrid: it does not begin like one.", hint=_AGAIN)
    header = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
    body = _NUMBER.sub(lambda found: f"{found[1]} = {_plain_number(path, found[2])}", text[head.end() :])
    try:
        grid: dict[str, Any] = parseTextgridStr(f"{header}{body}\n", includeEmptyIntervals=True)
    except (PraatioException, ValueError, LookupError) as error:
        raise ReferencesError(f"{path} cannot be read as a TextGrid: {error}.", hint=_AGAIN) from error
    labels = sum(2 + len(tier["entries"]) for tier in grid["tiers"])
    if labels != len(_QUOTED.findall(body)) or body.count('"') % 2:
        message = f"{path} cannot be read whole: it ends within a tier, or has several values in one line."
        raise ReferencesError(message, hint=_AGAIN)
    if grid["xmin"] > 0:
        skips.note(f"{path}: its times begin at {grid['xmin']:g} s and count from the start of the recording")
    tiers: list[dict[str, Any]] = grid["tiers"]
    return tiers


def _plain_number(path: Path, number: str) -> str:
    seconds = moment(number)
    if not isinstance(seconds, float):
        return number
    if seconds < 0:
        raise ReferencesError(f"{path}: it has a time below 0: {show(number)}.", hint=_AGAIN)
    return f"{seconds:.9f}"
