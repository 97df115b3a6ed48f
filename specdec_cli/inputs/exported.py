"""Cuts out of what `specdec export` wrote: captions say how somebody speaks, so they are not taken for what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from specdec_cli.audio.samples import Cut
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import one_line, span
from specdec_cli.marks import is_listed

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
VTT_SAID: Final = "NOTE said: "
SRT_SPEAKER: Final = "[{}]: "
"""What stands before a cue's text, as WhisperX writes it; a name has round brackets in place of square ones."""

Interval = tuple[str, float, float, str]
"""Tier, start and end in seconds, label."""

_CAPTIONS: Final = re.compile(r"(?:(?P<speaker>.+) - )?caption(?P<number> \(\d+\))?", re.DOTALL)
_KINDS: Final = ("text", "emotions", "needs_review", "flags")
_CUE: Final = re.compile(r"([\d:.]+) --> ([\d:.]+)")
_VOICE: Final = re.compile(r"<v ([^<>\n]*)>")


def cuts_of_tiers(path: Path, intervals: Sequence[Interval]) -> tuple[list[Cut], list[Interval]]:
    """The intervals of the tiers `caption` and `SPEAKER - caption`, as cuts; and those of all tiers of others."""
    families = {tier: found for tier, *_ in intervals if (found := _CAPTIONS.fullmatch(tier))}
    said = {(tier, start, end): label for tier, start, end, label in intervals}
    cuts = []
    for tier, start, end, label in intervals:
        if tier in families and label.strip():
            text = f"{tier[: families[tier].start('number')] if families[tier]['number'] else tier}"
            of_text = f"{text.removesuffix('caption')}text{families[tier]['number'] or ''}"
            place = f"{path}, a caption at {start:g} s"
            speaker = one_line(families[tier]["speaker"])
            cuts.append(Cut(*span(place, start, end), speaker, one_line(said.get((of_text, start, end))), place))
    places = {(cut.start_s, cut.end_s) for cut in cuts}
    about = {tier for tier in {tier for tier, *_ in intervals} if _about(tier, families, intervals, places)}
    return cuts, [interval for interval in intervals if interval[0] not in about]


def _about(
    tier: str,
    families: dict[str, re.Match[str]],
    intervals: Sequence[Interval],
    places: set[tuple[float, float]],
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


def cuts_of_vtt(path: Path, text: str) -> list[Cut] | None:
    """The cues of a WebVTT file of specdec's; None for another one."""
    if VTT_NOTE not in text.splitlines()[:4]:
        return None
    cuts: list[Cut] = []
    said = None
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith(VTT_SAID):
            said = one_line(unescape(line.removeprefix(VTT_SAID)))
        elif times := _CUE.match(line):
            place = f"{path}, line {number}"
            voice = _VOICE.match(next(lines, (0, ""))[1])
            speaker = one_line(unescape(voice[1])) if voice else None
            cuts.append(Cut(*span(place, times[1], times[2]), speaker, said, place))
            said = None
    return cuts


def cuts_of_eaf(path: Path, text: str) -> list[Cut]:
    """The aligned annotations of an ELAN document of specdec's, by their time.

    Raises:
        ReferencesError: it is malformed, or another program's.
    """
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise ReferencesError(
            f"{path} is no EAF that can be read: {error}.", hint="Save it with ELAN again."
        ) from error
    if root.get("AUTHOR") != "specdec":
        message = f"{path} is an EAF of another program."
        raise ReferencesError(message, hint="Export its tiers from ELAN as a Praat TextGrid.")
    return sorted(_annotations(path, root), key=lambda cut: (cut.start_s, cut.end_s))


def _annotations(path: Path, root: ElementTree.Element) -> Iterator[Cut]:
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
                hint = "Align it in ELAN, or delete it."
                raise ReferencesError(f"{place} has no start or no end.", hint=hint)
            seconds = (float(time) / 1000 if time.isdecimal() else time for time in (start, end))
            text = one_line(texts.get(found.get("ANNOTATION_ID")))
            yield Cut(*span(place, *seconds), one_line(tier.get("PARTICIPANT")), text, place)


def without_captions(path: Path, cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts of an SRT file; one that specdec exported, and nobody edited or moved, has captions and no texts."""
    if not is_listed(path):
        return list(cuts)
    return [Cut(cut.start_s, cut.end_s, cut.speaker, None, cut.place) for cut in cuts]
