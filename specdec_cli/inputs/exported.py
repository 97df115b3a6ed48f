"""Cuts out of what `specdec export` wrote: captions say how somebody speaks, so they are not taken for what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from specdec_cli.inputs.entries import Entry, moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import one_line

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
VTT_SAID: Final = "NOTE said: "
SRT_SPEAKER: Final = "[{}]: "
"""What stands before a cue's text, as WhisperX writes it; a name has round brackets in place of square ones."""

Interval = tuple[str, float | None, float | None, str]
"""Tier, start and end in seconds, label."""

_CAPTIONS: Final = re.compile(r"(?:(?P<speaker>.+) - )?caption(?P<number> \(\d+\))?", re.DOTALL)
_KINDS: Final = ("text", "emotions", "needs_review", "flags")
_CUE: Final = re.compile(r"([\d:.]+) --> ([\d:.]+)")
_VOICE: Final = re.compile(r"<v ([^<>\n]*)>")


def cuts_of_tiers(path: Path, intervals: Sequence[Interval], skips: Skips) -> tuple[list[Entry], set[str]]:
    """The intervals of the tiers `caption` and `SPEAKER - caption`; and the names of all tiers that are about them."""
    families = {tier: found for tier, *_ in intervals if (found := _CAPTIONS.fullmatch(tier))}
    said = {(tier, start, end): label for tier, start, end, label in intervals}
    cuts = list[Entry]()
    for tier, start, end, label in intervals:
        if tier in families and label.strip():
            name = tier[: families[tier].start("number")] if families[tier]["number"] else tier
            of_text = f"{name.removesuffix('caption')}text{families[tier]['number'] or ''}"
            place = f"{path}, a caption at {start} s"
            speaker = one_line(families[tier]["speaker"])
            if (part := span(place, skips, start, end)) is not None:
                text = one_line(said.get((of_text, start, end)))
                cuts.append(Entry(place, speaker=speaker, text=text, start_s=part[0], end_s=part[1]))
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
    said = None
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith(VTT_SAID):
            said = one_line(unescape(line.removeprefix(VTT_SAID)))
        elif times := _CUE.match(line):
            place = f"{path}, line {number}"
            voice = _VOICE.match(next(lines, (0, ""))[1])
            speaker = one_line(unescape(voice[1])) if voice else None
            if (part := span(place, skips, moment(times[1]), moment(times[2]))) is not None:
                yield Entry(place, speaker=speaker, text=said, start_s=part[0], end_s=part[1])
            said = None


def cuts_of_eaf(path: Path, root: ElementTree.Element, skips: Skips) -> Iterator[Entry]:
    """The aligned annotations of an ELAN document of specdec, with the texts that are attached to them."""
    times = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    texts = {
        reference.get("ANNOTATION_REF"): reference.findtext("ANNOTATION_VALUE")
        for tier in root.iter("TIER")
        if re.search(r"(^| - )text( \(\d+\))?$", tier.get("TIER_ID", "")) and tier.get("PARENT_REF")
        for reference in tier.iter("REF_ANNOTATION")
    }
    for tier in root.iter("TIER"):
        for number, found in enumerate(tier.iter("ALIGNABLE_ANNOTATION"), 1):
            place = f"{path}, annotation {number} of {tier.get('TIER_ID')}"
            start, end = (times.get(found.get(f"TIME_SLOT_REF{side}")) for side in (1, 2))
            if start is None or end is None:
                skips.leave_out(place, "it has no times of its own: align it in ELAN")
            elif (part := span(place, skips, moment(start, 1e-3), moment(end, 1e-3))) is not None:
                speaker = one_line(tier.get("PARTICIPANT"))
                text = one_line(texts.get(found.get("ANNOTATION_ID")))
                yield Entry(place, speaker=speaker, text=text, start_s=part[0], end_s=part[1])
