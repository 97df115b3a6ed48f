"""Cues of SRT and WebVTT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Final

from pysubs2 import SSAFile

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Entry
from specdec_cli.inputs.moments import required_moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import cell_text, read_text
from specdec_cli.text import show
from specdec_cli.times import clock

_TIME: Final = r"(-?\d[^\s.,]{0,30}(?:[.,]\d{0,9})?)[\d.]{0,30}"  # JavaScript writes decimals behind milliseconds
_CLOCK: Final = r"(-?\d{1,5}:[\d:]{1,30}(?:[.,]\d{1,9})?)[\d.]{0,30}"
_CUE: Final = re.compile(rf"\s*{_TIME}\s?-->\s?{_TIME}(?:\s.*)?|\s*{_CLOCK}\s?(?:[-–—=] ?){{1,3}}>\s?{_CLOCK}(?:\s.*)?")
"""The times of a cue, also with the arrows that machine translation writes; of bounded length, as all patterns."""
_TORN: Final = re.compile(rf"\s*{_CLOCK}\s?-->\s?(\S{{0,30}}).*")  # a first time with no second time behind it
_WORD_TIME: Final = re.compile(r"<\d[\d:.]*>")  # of a word within a cue
_IN_STREAM: Final = re.compile(r"X-TIMESTAMP-MAP=\S{0,60}[1-9]\S{0,60}")  # of HLS; with zeros it means nothing
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s{1,9}([^<>]{1,255})>")
_PREFIX: Final = re.compile(
    r"\[([^\]\n]{1,255})\]:\s+|\[?((?:speaker|说话人|发言人)[ _]?\d{1,3})(?:\]:?|[:：])\s*", re.I
)
"""A speaker before the text, as WhisperX writes `[Ann]: ` and others `SPEAKER_01: `."""
_TAG: Final = re.compile(r"<[^<>\n]{0,500}>|\{\\[^{}\n]{0,500}\}")
_OWN: Final = "NOTE specdec"  # begins the comment of a WebVTT whose cues are captions
_END: Final = "\0"  # marks the empty line that ends a cue of WebVTT


def subtitles(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cues. The speaker is the voice of a cue or the prefix of its text.

    pysubs2 joins a cue whose times it does not read to the one before, and reads `00:01.5` as five milliseconds. So
    the times are read here, and it finds the number of the cue in their place, in milliseconds.

    Source: https://www.w3.org/TR/webvtt1/; SRT has no specification.

    Raises:
        ReferencesError: a line of text has the form of a cue's two times.
    """
    text = read_text(path, lenient=True)
    web, captions = text.startswith("WEBVTT"), _OWN in text[:200]
    if web and (moved := _IN_STREAM.search(text)):
        skips.note(f"{path}: its times are taken as they are, though {moved[0]} may move them")
    lines, cues = [""], list[tuple[str, re.Match[str]]]()
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        if times := _CUE.fullmatch(line) or ("-->" in line and _begins_cue(lines) and _TORN.fullmatch(line)):
            lines.append(" --> ".join([clock(len(cues), ",")] * 2))
            cues.append((f"{path}, line {number}", times))
        elif line or lines[-1] not in ("", _END):
            lines.append(_WORD_TIME.sub("", line) if line or not web else _END)
    # without a number behind it, pysubs2 takes the last line of the last cue for one
    events = SSAFile.from_string("\n".join([*lines, "", "0"]), "srt", keep_unknown_html_tags=True).events
    if [event.start for event in events] != [*range(len(cues))]:
        message = f"{path}: a line of its text holds two times, and would be read as a cue."
        raise ReferencesError(message, hint="Take the times out of the text.")
    for (place, times), event in zip(cues, events, strict=True):
        begin, until = (required_moment(time) for time in times.groups() if time is not None)
        if (part := span(place, skips, begin, until)) is not None:
            said, *_ = event.text.replace(r"\N", "\n").split(_END, 1)
            speaker, words = _spoken(place, said, skips)
            yield Entry(place, speaker=speaker, text=None if captions else words, start_s=part[0], end_s=part[1])


def _begins_cue(lines: Sequence[str]) -> bool:
    """Whether the next line is the first of a cue, or the second behind its number or name."""
    before = lines[-1]
    return before in ("", _END) or before.strip().isdecimal() or (lines[-2] in ("", _END) and "-->" not in before)


def _spoken(place: str, text: str, skips: Skips) -> tuple[str | None, str | None]:
    """Speaker and words of the text of a cue."""
    voices, said = _VOICE.findall(text), _TAG.sub("", text).strip()
    if len({*voices}) > 1:
        skips.change(place, f"several voices: {show(voices[0])} counts")
    speaker = voices[0] if voices else ""
    if not voices and (prefix := _PREFIX.match(said)):
        speaker, said = prefix[1] or prefix[2], said[prefix.end() :]
    return cell_text(unescape(speaker)), cell_text(unescape(said))
