"""Cuts out of what `specdec export` wrote: captions say how somebody speaks, so they are not taken for what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from itertools import takewhile
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from specdec_cli.inputs.entries import Entry, moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import one_line

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
VTT_SAID: Final = "NOTE said: "
VTT_CHANNEL: Final = "NOTE channel: "
SRT_SPEAKER: Final = "[{}]: "
"""What stands before a cue's text, as WhisperX writes it; a name has round brackets in place of square ones."""
SRT_NOTHING: Final = "…"
"""An empty caption above what is said."""

Interval = tuple[str, float | None, float | None, str]
"""Tier, start and end in seconds, label."""

_CAPTIONS: Final = re.compile(r"(?:(?P<speaker>.+) - )?caption(?P<number> \(\d+\))?", re.DOTALL)
_ATTACHED: Final = re.compile(r"(?:^| - )(text|channel)(?: \(\d+\))?$")
_KINDS: Final = ("text", "channel", "emotions", "needs_review", "flags")
_CUE: Final = re.compile(r"([\d:.,]+) --> ([\d:.,]+)")
_PREFIX: Final = re.compile(r"\[([^\]]*)\]: ")
_VOICE: Final = re.compile(r"<v ([^<>\n]*)>")


def cuts_of_tiers(path: Path, intervals: Sequence[Interval], skips: Skips) -> tuple[list[Entry], set[str]]:
    """The intervals of the tiers `caption` and `SPEAKER - caption`; and the names of all tiers that are about them."""
    families = {tier: found for tier, *_ in intervals if (found := _CAPTIONS.fullmatch(tier))}
    said = {(tier, start, end): label for tier, start, end, label in intervals}
    cuts = list[Entry]()
    for tier, start, end, label in intervals:
        if tier in families and label.strip():
            number = families[tier]["number"] or ""
            before = tier.removesuffix(number).removesuffix("caption")
            place = f"{path}, a caption at {start} s"
            speaker = one_line(families[tier]["speaker"])
            if (part := span(place, skips, start, end)) is not None:
                text, channel = (said.get((f"{before}{kind}{number}", start, end)) for kind in ("text", "channel"))
                cuts.append(_cut(place, speaker, text, channel, part))
    places = {(cut.start_s, cut.end_s) for cut in cuts}
    return cuts, {tier for tier in {tier for tier, *_ in intervals} if _about(tier, families, intervals, places)}


def _about(
    tier: str,
    families: dict[str, re.Match[str]],
    intervals: Sequence[Interval],
    places: set[tuple[float | None, float | None]],
) -> bool:
    """Whether a tier is one of captions or says more of them: by its name, or as most of it stands where they do."""
    speakers = {found["speaker"] for found in families.values()}
    if tier in families or any(tier.startswith(f"{speaker} - ") for speaker in speakers - {None}):
        return True
    if None not in speakers:
        return False
    name = re.sub(r" \(\d+\)$", "", tier)
    own = [(start, end) in places for of, start, end, label in intervals if of == tier and label.strip()]
    return name in _KINDS or name.startswith("measured_") or (bool(own) and 2 * sum(own) > len(own))


def is_vtt(text: str) -> bool:
    """Whether a WebVTT file is of specdec."""
    return VTT_NOTE in text.splitlines()[:4]


def cuts_of_vtt(path: Path, text: str, skips: Skips) -> Iterator[Entry]:
    """The cues of a WebVTT file of specdec."""
    said = channel = None
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith(VTT_SAID):
            said = unescape(line.removeprefix(VTT_SAID))
        elif line.startswith(VTT_CHANNEL):
            channel = line.removeprefix(VTT_CHANNEL)
        elif times := _CUE.match(line):
            place = f"{path}, line {number}"
            voice = _VOICE.match(next(lines, (0, ""))[1])
            if (part := span(place, skips, moment(times[1]), moment(times[2]))) is not None:
                yield _cut(place, unescape(voice[1]) if voice else None, said, channel, part)
            said = channel = None


def cuts_of_srt(path: Path, text: str, skips: Skips) -> Iterator[Entry]:
    """The cues of an SRT file of specdec that nobody edited: a caption after its speaker, and below it what is said."""
    lines = iter(enumerate(text.split("\n"), 1))
    for number, line in lines:
        if times := _CUE.match(line):
            place, cue = f"{path}, line {number}", [line for _, line in takewhile(lambda each: each[1], lines)]
            prefix = _PREFIX.match(cue[0]) if cue else None
            if (part := span(place, skips, moment(times[1]), moment(times[2]))) is not None:
                yield _cut(place, prefix[1] if prefix else None, " ".join(cue[1:]), None, part)


def _cut(
    place: str, speaker: object, text: object, channel: str | None, part: tuple[float | None, float | None]
) -> Entry:
    number = int(channel) - 1 if channel and channel.strip().isdecimal() and 0 < int(channel) < 1000 else None
    return Entry(place, None, None, one_line(speaker), one_line(text), None, None, *part, number)


def cuts_of_eaf(
    path: Path, root: ElementTree.Element, times: Mapping[str | None, float | None], skips: Skips
) -> Iterator[Entry]:
    """The aligned annotations of an ELAN document of specdec, with what is attached; `times`: s of its slots."""
    said = {
        (kind[1], reference.get("ANNOTATION_REF")): reference.findtext("ANNOTATION_VALUE")
        for tier in root.iter("TIER")
        if (kind := _ATTACHED.search(tier.get("TIER_ID", ""))) and tier.get("PARENT_REF")
        for reference in tier.iter("REF_ANNOTATION")
    }
    for tier in root.iter("TIER"):
        for number, found in enumerate(tier.iter("ALIGNABLE_ANNOTATION"), 1):
            place = f"{path}, annotation {number} of {tier.get('TIER_ID')}"
            start, end = (times.get(found.get(f"TIME_SLOT_REF{side}")) for side in (1, 2))
            if start is None or end is None:
                skips.leave_out(place, "it has no times of its own: align it in ELAN")
            elif (part := span(place, skips, start, end)) is not None:
                text, channel = (said.get((kind, found.get("ANNOTATION_ID"))) for kind in ("text", "channel"))
                yield _cut(place, tier.get("PARTICIPANT"), text, channel, part)
