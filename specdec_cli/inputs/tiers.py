"""Labelled intervals of annotation tiers: Praat's TextGrid and ELAN's EAF."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Entry, channel_from_1
from specdec_cli.inputs.moments import span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import cell_text, read_text
from specdec_cli.text import show

_VALUE: Final = re.compile(r"![^\n]*|(\"(?:[^\"]|\"\")*+\"|(?<!\S)(?:[-+]?\d[\d.,eE+-]*|<exists>|<absent>)(?!\S))")
_PARTS_OF_UTTERANCES: Final = re.compile(r"\b(words?|phones?|phonemes?|syllables?)$", re.IGNORECASE)
_TEXT: Final = frozenset(
    {"text", "transcript", "transcription", "utterance", "utterances", "segments", "sentence", "sentences", "silences"}
)
_OF_SPEAKER: Final = re.compile(r"(.+) - (\w+)(?: \(\d+\))?", re.DOTALL)
_LAYER: Final = re.compile(r"(\w+) \(\d+\)")
_SILENT: Final = frozenset({"", "sil", "silent", "silence", "sp", "<sil>", "<p:>", "#"})
_CAPTIONS: Final = re.compile(r"(?P<before>(?P<speaker>.+) - )?caption(?P<number> \(\d+\))?", re.DOTALL)
_ATTACHED: Final = re.compile(r"(?:^| - )(text|channel)(?: \(\d+\))?$")  # a text, and no translation or gloss
_OF_CAPTIONS: Final = re.compile(r"(?:text|channel|emotions|needs_review|flags|measured_.*)(?: \(\d+\))?")
_XML: Final = re.compile(r"\s*<\?xml[^>]{0,200}\?>")  # it may name another encoding
_MOST_TIERS: Final = 10_000
_DEEPEST: Final = 8  # levels of annotations that are attached to others
_AGAIN: Final = "Save it again as a text file, with the program that wrote it."


_Span = tuple[float | None, float | None]
_Key = tuple[float | None, float | None, str | None]
"""Start and end of a cut, seconds, and who speaks."""


@dataclass(slots=True)
class _Tier:
    name: str
    speaker: str | None = None  # where the file names one beside the tier
    empty_counts: bool = False  # whether an interval without a label is a piece, and no silence between two
    intervals: list[tuple[float | None, float | None, str]] = field(default_factory=list)


def textgrid(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of a TextGrid, in the long, the short or the chronological format; see `_cuts`."""
    yield from _cuts(path, list(_grid(path, skips)), skips)


def eaf(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of an ELAN document: annotations of tiers without a parent, and texts that are attached to them."""
    root = _elan(path)
    yield from _cuts(path, list(_tiers_of(root, _slots(path, root, skips))), skips)


def _cuts(path: Path, tiers: Sequence[_Tier], skips: Skips) -> Iterator[Entry]:
    """Cuts of the intervals of all tiers but those of words and sounds; equal intervals of one speaker are one cut.

    A tier is called like its speaker, or `ANN - text`; the labels of a tier `speaker` are speakers. Of a tier `caption`
    only the intervals are taken, since its labels say how somebody speaks, and the texts in a tier `text` about it.
    """
    captioned, about = _captions(path, tiers, skips)
    yield from captioned
    kinds = [(tier, *_kind(tier)) for tier in tiers if tier.name not in about]
    found: dict[_Key, Entry] = {}
    spans = defaultdict[_Span, list[_Key]](list)
    for tier, speaker, kind in sorted(kinds, key=lambda one: one[2] == "speaker"):
        for start, end, label in tier.intervals if kind != "words" else ():
            if label.strip().lower() in _SILENT and (label.strip() or not tier.empty_counts):
                continue
            place = f"{path}, {show(label[:80])} of {show(tier.name[:80])}"
            if (part := _part(place, start, end, skips)) is None:
                continue
            if kind == "speaker" and len(spans[part]) == 1:
                (key,) = spans[part]
                found[key] = found[key]._replace(speaker=cell_text(label))
                continue
            who = cell_text(label) if kind == "speaker" else speaker
            text = cell_text(label) if kind == "text" else None
            key = *part, who
            known = found.setdefault(key, Entry(place, speaker=who, text=text, start_s=part[0], end_s=part[1]))
            if known.text is None and text is not None:
                found[key] = known._replace(text=text)
            elif text is not None and known.text != text:
                skips.leave_out(place, "the speaker has another interval with these times")
            if key not in spans[part]:
                spans[part].append(key)
    passed = [show(tier.name) for tier, _, kind in kinds if kind == "words" or not tier.intervals]
    skips.require_some(
        found or captioned or not passed,
        f"{path} has no cuts: its tiers are {', '.join(passed[:3])}.",
        "Tiers of words, phones, syllables and points are passed over: rename a tier that holds utterances.",
    )
    yield from found.values()


def _part(place: str, start: float | None, end: float | None, skips: Skips) -> _Span | None:
    if start is None or end is None:
        skips.leave_out(place, "it has no times of its own")
        return None
    return span(place, skips, start, end)


def _captions(path: Path, tiers: Sequence[_Tier], skips: Skips) -> tuple[list[Entry], set[str]]:
    """The cuts of the tiers `caption` and `SPEAKER - caption`, and the names of all tiers about captions."""
    families = {tier.name: named for tier in tiers if (named := _CAPTIONS.fullmatch(tier.name))}
    said = {(tier.name, start, end): label for tier in tiers if families for start, end, label in tier.intervals}
    cuts = list[Entry]()
    for tier in tiers:
        if (named := families.get(tier.name)) is None:
            continue
        before, number = named["before"] or "", named["number"] or ""
        for start, end, label in tier.intervals:
            place = f"{path}, a caption at {start} s"
            if (label.strip() or tier.empty_counts) and (part := _part(place, start, end, skips)) is not None:
                text, channel = (said.get((f"{before}{kind}{number}", start, end)) for kind in ("text", "channel"))
                who = tier.speaker or cell_text(named["speaker"])
                cut = Entry(place, speaker=who, text=cell_text(text), channel=channel_from_1(channel))
                cuts.append(cut._replace(start_s=part[0], end_s=part[1]))
    starts = tuple(named["before"] for named in families.values() if named["before"])
    about = {tier.name for tier in tiers if tier.name in families or tier.name.startswith(starts)}
    if any(named["before"] is None for named in families.values()):
        places = {(cut.start_s, cut.end_s) for cut in cuts}
        about |= {tier.name for tier in tiers if _says_more(tier, places)}
    return cuts, about


def _says_more(tier: _Tier, places: Container[_Span]) -> bool:
    """Whether a tier is about captions without a speaker: by its name, or because most of it has their times."""
    own = [(start, end) in places for start, end, label in tier.intervals if label.strip()]
    return _OF_CAPTIONS.fullmatch(tier.name) is not None or (bool(own) and 2 * sum(own) > len(own))


def _kind(tier: _Tier) -> tuple[str | None, str]:
    """Speaker of a tier, and what its labels are: text, speaker, or words."""
    name = tier.name.strip()
    layer = _LAYER.fullmatch(name)
    plain = (layer[1] if layer else name).lower()
    if plain == "speaker":
        return None, "speaker"
    if _PARTS_OF_UTTERANCES.search(name):
        return None, "words"
    if plain in _TEXT:
        return tier.speaker, "text"
    of = _OF_SPEAKER.fullmatch(name)
    return tier.speaker or cell_text(of[1] if of else name), "text"


def _grid(path: Path, skips: Skips) -> Iterator[_Tier]:
    """The tiers of a TextGrid. Numbers, quoted texts and flags between white space count, all else (`xmin =`) does not.

    Neither does the number of tiers and intervals that a file declares.

    Source: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
    """
    values = (found[1] for found in _VALUE.finditer(read_text(path, lenient=True)) if found[1])
    head = next(values, "").strip('"')
    chronological = head.startswith("Praat chronological TextGrid")
    if not chronological and not (head.startswith("ooTextFile") and next(values, "").strip('"') == "TextGrid"):
        raise ReferencesError(f"{path} is no TextGrid that can be read: its first lines are others.", hint=_AGAIN)
    if (begins_s := _number(next(values, "")) or 0.0) > 0:
        skips.note(f"{path}: its times begin at {begins_s:g} s and count from the start of the recording")
    yield from _in_time_order(path, values, skips) if chronological else _tier_by_tier(path, values, skips)


def _tier_by_tier(path: Path, values: Iterator[str], skips: Skips) -> Iterator[_Tier]:
    value = next((value for value in values if value.startswith('"')), None)
    while value is not None:
        kind, tier = _unquoted(value), _Tier(_unquoted(next(values, '""')))
        rest = [next(values, None) for _ in range(3)]  # start, end, number of intervals
        complete = rest[-1] is not None
        value = next(values, None)
        while value is not None and not value.startswith('"'):
            complete = _interval(kind, tier, value, values)
            value = next(values, None)
        if not complete:
            _ends_early(path, skips)
        yield tier


def _in_time_order(path: Path, values: Iterator[str], skips: Skips) -> Iterator[_Tier]:
    next(values, None)  # the end
    kinds, tiers = list[str](), list[_Tier]()
    for _ in range(min(int(_number(next(values, "")) or 0), _MOST_TIERS)):
        kinds.append(_unquoted(next(values, '""')))
        tiers.append(_Tier(_unquoted(next(values, '""'))))
        for _ in ("start", "end"):
            next(values, None)
    for value in values:
        number = int(_number(value) or 0) - 1
        if not 0 <= number < len(tiers):
            skips.leave_out(f"{path}, {show(value[:80])}", "there is no such tier")
        elif not _interval(kinds[number], tiers[number], next(values, ""), values):
            _ends_early(path, skips)
    yield from tiers


def _interval(kind: str, tier: _Tier, start: str, values: Iterator[str]) -> bool:
    """Adds an interval to a tier, or passes over a point; returns False if the file ends within it."""
    end = _number(next(values, "")) if kind == "IntervalTier" else None
    label = next(values, None)
    if label is not None and kind == "IntervalTier":
        tier.intervals.append((_number(start), end, _unquoted(label)))
    return label is not None


def _ends_early(path: Path, skips: Skips) -> None:
    skips.leave_out(f"{path}, at its end", "the file ends within an interval or a tier")


def _unquoted(value: str) -> str:
    return value[1:-1].replace('""', '"') if value.startswith('"') else value


def _number(value: str) -> float | None:
    try:
        return float(value.replace(",", "."))
    except ValueError:
        return None


def _elan(path: Path) -> ElementTree.Element:
    """The root of an ELAN document. Source: https://www.mpi.nl/tools/elan/EAF_Annotation_Format_3.0_and_ELAN.pdf."""
    text = _XML.sub("", read_text(path), count=1)
    try:
        if "<!" in text.split("<ANNOTATION_DOCUMENT")[0].replace("<!--", ""):
            raise ValueError("it declares a document type")
        root = ElementTree.fromstring(text.encode())
        if root.tag != "ANNOTATION_DOCUMENT":
            raise ValueError(f"it is a {root.tag}")
    except (ElementTree.ParseError, ValueError) as error:
        raise ReferencesError(f"{path} is no ELAN document that can be read: {error}.", hint=_AGAIN) from error
    return root


def _slots(path: Path, root: ElementTree.Element, skips: Skips) -> dict[str | None, float | None]:
    """The time of each slot, s, counted from the `TIME_ORIGIN` of the media, which ELAN sets to align several media."""
    begins = {_number(media.get("TIME_ORIGIN") or "0") or 0.0 for media in root.iter("MEDIA_DESCRIPTOR")} or {0.0}
    origin_ms = next(iter(begins)) if len(begins) == 1 else 0.0
    if begins != {0.0}:
        how = f"counted from {origin_ms / 1000:g} s, its TIME_ORIGIN"
        many = "taken as they are, since its media have different TIME_ORIGINs"
        skips.note(f"{path}: its times are {how if len(begins) == 1 else many}")
    found = {slot.get("TIME_SLOT_ID"): _number(slot.get("TIME_VALUE") or "") for slot in root.iter("TIME_SLOT")}
    return {name: None if ms is None else (ms + origin_ms) / 1000 for name, ms in found.items()}


def _tiers_of(root: ElementTree.Element, times: Mapping[str | None, float | None]) -> Iterator[_Tier]:
    """The tiers of an ELAN document without a parent, and then what specdec attaches to them: texts and channels.

    An attached annotation has the times of the topmost one that it refers to, and the speaker of the topmost tier.
    """
    tiers = list(root.iter("TIER"))
    speakers = {tier.get("TIER_ID"): cell_text(tier.get("PARTICIPANT")) for tier in tiers}
    of_tiers = {tier.get("TIER_ID"): tier.get("PARENT_REF") for tier in tiers if tier.get("PARENT_REF") in speakers}
    of = {one.get("ANNOTATION_ID"): one.get("ANNOTATION_REF") for one in root.iter("REF_ANNOTATION")}
    spans: dict[str | None, _Span] = {
        one.get("ANNOTATION_ID"): (times.get(one.get("TIME_SLOT_REF1")), times.get(one.get("TIME_SLOT_REF2")))
        for one in root.iter("ALIGNABLE_ANNOTATION")
    }
    captioned = any(_CAPTIONS.fullmatch(name or "") for name in speakers)
    attached: list[_Tier] = []
    for element in tiers:
        tier = _Tier(element.get("TIER_ID") or "", cell_text(element.get("PARTICIPANT")), empty_counts=True)
        for one in chain(element.iter("ALIGNABLE_ANNOTATION"), element.iter("REF_ANNOTATION")):
            start, end = spans.get(_topmost(one.get("ANNOTATION_ID"), of), (None, None))
            tier.intervals.append((start, end, one.findtext("ANNOTATION_VALUE") or ""))
        if element.get("PARENT_REF") is None:
            yield tier
        elif (kind := _ATTACHED.search(tier.name.strip())) and (captioned or kind[1] != "channel"):
            top = _topmost(tier.name, of_tiers)
            tier.speaker = speakers[top] or _kind(_Tier(top or ""))[0]
            attached.append(tier)
    yield from attached


def _topmost(name: str | None, above: Mapping[str | None, str | None]) -> str | None:
    for _ in range(_DEEPEST):
        name = above.get(name, name)
    return name
