"""Cues of SRT and WebVTT as programs write them, also with blank lines inside a cue and with repeated lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Final

from specdec_cli.inputs.entries import Entry, channel_from_1, pieces
from specdec_cli.inputs.moments import moment
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import cell_text, read_text
from specdec_cli.text import show

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
VTT_SAID: Final = "NOTE said: "
VTT_CHANNEL: Final = "NOTE channel: "
SRT_SPEAKER: Final = "[{}]: "
"""Stands before the text of a cue, as WhisperX writes it; square brackets in a name become round ones."""
SRT_NOTHING: Final = "…"
"""Stands for an empty caption above what is said."""

_OWN_CUE: Final = re.compile(r"([\d:.,]+) --> ([\d:.,]+)")
_OWN_VOICE: Final = re.compile(r"<v ([^<>\n]*)>")
_TIME: Final = r"(-?\d[\d:]{0,20}(?:\s?[.,]\s?\d[\d.]{0,30})?)"
_TOO_FINE: Final = re.compile(r"([.,]\d{1,9})[\d.]*\Z")  # milliseconds with decimals, as JavaScript prints them
_AN_ARROW: Final = r"(?:[-–—=]\s?){1,3}>"  # also as machine translation leaves it
_ARROW: Final = re.compile(rf"\s*{_TIME}\s*{_AN_ARROW}\s*{_TIME}(?:\s.*)?")
_LIKE_ARROW: Final = re.compile(
    rf"\s*-?\d\S{{0,30}}\s{{0,9}}-->|\s*-?\d{{1,5}}:[\d:., ]{{1,30}}{_AN_ARROW}\s*-?\d{{1,5}}:\d"
)
_OF_COLONS: Final = re.compile(r"(\d{1,5}:\d{1,2}:\d{1,2}):(\d{3})")  # in the place of a comma; two digits are frames
_IN_STREAM: Final = re.compile(r"X-TIMESTAMP-MAP=\S{0,60}[1-9]\S{0,60}")  # of HLS; with zeros it means nothing
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s{1,9}([^<>]{1,255})>")
_PREFIX: Final = re.compile(r"\[([^\]\n]{1,255})\]:\s+")  # as WhisperX writes speakers into subtitles
_NUMBERED: Final = re.compile(r"\[?((?:speaker|说话人|发言人)[ _]?\d{1,3})(?:\]:?|[:：])\s*", re.IGNORECASE)  # others
_NAME: Final = re.compile(r"([^\W\d][^:?!,;：？！，；。\n]{0,40})(?:: |：\s?)(.*)", re.DOTALL)
_TAG: Final = re.compile(r"<[^<>\n]{0,500}>|\{\\[^{}\n]{0,500}\}")  # bounded: a run of < takes linear time
_TIMED: Final = re.compile(r"<\d{1,9}:[\d:.]{4,20}>")  # of a word, as in the captions that YouTube makes
_BLOCK: Final = re.compile(r"(NOTE|STYLE|REGION)\b")


def subtitles(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cues; a speaker is the voice of a cue, or what stands as `[NAME]: ` at its beginning.

    Source: https://www.w3.org/TR/webvtt1/; SRT has no specification. In captions of YouTube, whose words have times of
    their own, every line comes in several cues; the first one counts.
    """
    text = read_text(path, lenient=True)
    if VTT_NOTE in text.splitlines()[:4]:
        yield from _own_vtt(path, text, skips)
    else:
        cues = list(_cues(path, text, skips))
        if _all_named(cues):
            skips.note(f"{path}: every cue begins with a name and a colon, so these are read as speakers")
            cues = [cue._replace(speaker=of[1], text=cell_text(of[2])) for cue in cues if (of := _named(cue))]
        yield from cues


def _own_vtt(path: Path, text: str, skips: Skips) -> Iterator[Entry]:
    """The cues of a WebVTT of specdec: cues say how somebody speaks, the comments above them what is said."""
    said = channel = None
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith(VTT_SAID):
            said = cell_text(unescape(line.removeprefix(VTT_SAID)))
        elif line.startswith(VTT_CHANNEL):
            channel = channel_from_1(line.removeprefix(VTT_CHANNEL))
        elif times := _OWN_CUE.match(line):
            place = f"{path}, line {number}"
            voice = _OWN_VOICE.match(next(lines, (0, ""))[1])
            speaker = cell_text(unescape(voice[1])) if voice else None
            known = {"speaker": speaker, "text": said, "channel": channel}
            yield from pieces(place, skips, moment(times[1]), moment(times[2]), **known)
            said = channel = None


def _cues(path: Path, text: str, skips: Skips) -> Iterator[Entry]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    web, rolls, repeated = lines[0].startswith("WEBVTT"), _TIMED.search(text) is not None, 0
    starts = [number for number, line in enumerate(lines) if _LIKE_ARROW.match(line)]
    if web and (place_in_stream := _IN_STREAM.search(text)):
        skips.note(f"{path}: its times are taken as they are, though {place_in_stream[0]} may move them")
    shown: list[str] = []
    for at, until in zip(starts, [*starts[1:], None], strict=False):
        place, times = f"{path}, line {at + 1}", _ARROW.fullmatch(lines[at])
        if times is None:
            skips.leave_out(place, f"no times: {show(lines[at][:80])}")
            continue
        said = _text(lines[at + 1 : until], web=web, last=until is None)
        if rolls:
            shown, before = [bare for line in said if (bare := cell_text(_TAG.sub("", line)))], shown
            said = [line for line in said if cell_text(_TAG.sub("", line)) not in {None, *before}]
            if not said:
                repeated += 1
                continue
        speaker, spoken = _spoken(place, "\n".join(said), skips)
        yield from pieces(place, skips, _moment(times[1]), _moment(times[2]), speaker=speaker, text=spoken)
    if repeated:
        skips.note(f"{path}: {repeated} cues only repeat the lines of others and are passed over")


def _all_named(cues: Sequence[Entry]) -> bool:
    """Whether every cue begins with `NAME: `, as Zoom writes it, and a name is repeated."""
    names = [found[1] for cue in cues if cue.speaker is None and (found := _named(cue))]
    return len(names) == len(cues) > len({*names})


def _named(cue: Entry) -> re.Match[str] | None:
    return _NAME.fullmatch(cue.text or "")


def _moment(time: str) -> float | str | None:
    return moment(_OF_COLONS.sub(r"\1,\2", _TOO_FINE.sub(r"\1", "".join(time.split()))))


def _spoken(place: str, text: str, skips: Skips) -> tuple[str | None, str | None]:
    prefix = _PREFIX.match(text) or _NUMBERED.match(text)
    voices = _VOICE.findall(text)
    if len({*voices}) > 1:
        skips.change(place, f"several voices: {show(voices[0])} counts")
    if voices:
        return cell_text(unescape(voices[0])), cell_text(unescape(_TAG.sub("", text)))
    bare = text[prefix.end() :] if prefix else text
    return cell_text(unescape(prefix[1])) if prefix else None, cell_text(unescape(_TAG.sub("", bare)))


def _text(lines: Sequence[str], *, web: bool, last: bool) -> list[str]:
    """The lines of a cue, without the number or name of the next one, and without comments between the two."""
    lines = list(lines)
    if not last and lines and lines[-1].strip():
        alone = len(lines) == 1 or not lines[-2].strip()
        if lines[-1].strip().isdecimal() if not web else alone:
            lines.pop()
    kept: list[str] = []
    drops = False
    for number, line in enumerate(lines):
        begins = number > 0 and not lines[number - 1].strip()
        drops = bool(line.strip()) and (drops or (web and begins and _BLOCK.match(line) is not None))
        if line.strip() and not drops:
            kept.append(line)
    return kept
