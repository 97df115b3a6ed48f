"""Tiers in the files of Praat (TextGrid) and ELAN (EAF)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

from specdec_cli.export.recordings import CaptionedRecording
from specdec_cli.export.tiers import Tier, tiers_of

_SCHEMA: Final = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_MIME: Final = {
    ".wav": "audio/x-wav",
    ".mp4": "video/mp4",
    ".mpg": "video/mpeg",
    ".mpeg": "video/mpeg",
    ".mp3": "audio/mpeg",
}
_ASSOCIATION: Final = "Symbolic_Association"


def textgrid(recording: CaptionedRecording, kinds: Mapping[str, str]) -> str:
    """A Praat TextGrid in the long text format, of interval tiers (`kinds`: see `tiers_of`), as long as the recording.

    Format: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
    """
    tiers = [tier for group in tiers_of(recording, kinds) for tier in group]
    end = _seconds(recording.duration_s)
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {end}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, tier in enumerate(tiers, 1):
        intervals = _filled(tier, recording.duration_s)
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f"        name = {_quoted(tier.name)}"]
        lines += ["        xmin = 0", f"        xmax = {end}", f"        intervals: size = {len(intervals)}"]
        for place, (start, stop, text) in enumerate(intervals, 1):
            lines += [f"        intervals [{place}]:", f"            xmin = {_seconds(start)}"]
            lines += [f"            xmax = {_seconds(stop)}", f"            text = {_quoted(text)}"]
    return "\n".join(lines) + "\n"


def eaf(recording: CaptionedRecording, kinds: Mapping[str, str], target: Path) -> str:
    """An ELAN annotation document, EAF 3.0: captions aligned to time, and all else (`kinds`: see `tiers_of`) attached.

    The tiers of a caption are its children (`Symbolic_Association`), so that ELAN moves them along with its boundaries.
    The recording is linked by its absolute path and by that relative to the target.

    Format: https://www.mpi.nl/tools/elan/EAF_Annotation_Format_3.0_and_ELAN.pdf
    """
    document = ElementTree.Element(
        "ANNOTATION_DOCUMENT",
        {"xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance", "xsi:noNamespaceSchemaLocation": _SCHEMA},
        AUTHOR="specdec",
        DATE=recording.made.isoformat(timespec="seconds"),
        FORMAT="3.0",
        VERSION="3.0",
    )
    header = ElementTree.SubElement(document, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", _media(recording.path, target))
    order = ElementTree.SubElement(document, "TIME_ORDER")
    ids, slots = count(1), count(1)
    for parent, *children in tiers_of(recording, kinds):
        aligned = _tier(document, parent, "piece")
        references = []
        for start, end, text in parent.intervals:
            name = f"a{next(ids)}"
            references.append(name)
            begin, stop = (_slot(order, f"ts{next(slots)}", time) for time in (start, end))
            where = {"ANNOTATION_ID": name, "TIME_SLOT_REF1": begin, "TIME_SLOT_REF2": stop}
            _annotation(aligned, "ALIGNABLE_ANNOTATION", where, text)
        for child in children:
            attached = _tier(document, child, "about", parent)
            for reference, (_, _, text) in zip(references, child.intervals, strict=True):
                if text:
                    where = {"ANNOTATION_ID": f"a{next(ids)}", "ANNOTATION_REF": reference}
                    _annotation(attached, "REF_ANNOTATION", where, text)
    ElementTree.SubElement(header, "PROPERTY", NAME="lastUsedAnnotationId").text = str(next(ids) - 1)
    order[:] = sorted(order, key=lambda slot: int(slot.attrib["TIME_VALUE"]))
    _types(document)
    ElementTree.indent(document)
    return ElementTree.tostring(document, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _media(path: str, target: Path) -> dict[str, str]:
    """How an EAF links its recording."""
    suffix = os.path.splitext(path)[1].lower()
    relative = os.path.relpath(path, os.path.abspath(target.parent))
    return {
        "MEDIA_URL": Path(path).as_uri(),
        "MIME_TYPE": _MIME.get(suffix, f"audio/{suffix[1:] if suffix[1:].isalnum() and suffix.isascii() else 'x-wav'}"),
        "RELATIVE_MEDIA_URL": quote(os.fsencode(relative if relative.startswith(os.pardir) else f"./{relative}")),
    }


def _tier(document: ElementTree.Element, tier: Tier, kind: str, parent: Tier | None = None) -> ElementTree.Element:
    attributes = {"TIER_ID": tier.name, "LINGUISTIC_TYPE_REF": kind}
    if tier.speaker is not None:
        attributes["PARTICIPANT"] = tier.speaker
    if parent is not None:
        attributes["PARENT_REF"] = parent.name
    return ElementTree.SubElement(document, "TIER", attributes)


def _annotation(tier: ElementTree.Element, kind: str, where: dict[str, str], text: str) -> None:
    annotation = ElementTree.SubElement(ElementTree.SubElement(tier, "ANNOTATION"), kind, where)
    ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = text


def _slot(order: ElementTree.Element, name: str, time_ms: int) -> str:
    ElementTree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID=name, TIME_VALUE=str(time_ms))
    return name


def _types(document: ElementTree.Element) -> None:
    """The types that tiers refer to, and what ties children to a parent."""
    tied = {"TIME_ALIGNABLE": "false", "CONSTRAINTS": _ASSOCIATION}
    for name, more in (("piece", {"TIME_ALIGNABLE": "true"}), ("about", tied)):
        attributes = {"LINGUISTIC_TYPE_ID": name, "GRAPHIC_REFERENCES": "false", **more}
        ElementTree.SubElement(document, "LINGUISTIC_TYPE", attributes)
    ElementTree.SubElement(
        document, "CONSTRAINT", STEREOTYPE=_ASSOCIATION, DESCRIPTION="1-1 association with a parent annotation"
    )


def _filled(tier: Tier, end_s: float) -> list[tuple[float, float, str]]:
    """The intervals of a tier from 0 to the end, s, with empty ones in the gaps; the last one may have been rounded."""
    filled: list[tuple[float, float, str]] = []
    at = 0.0
    for start_ms, stop_ms, text in tier.intervals:
        start, stop = start_ms / 1000, stop_ms / 1000
        if end_s - stop < 0.001:
            stop = end_s
        if at < start:
            filled.append((at, start, ""))
        filled.append((start, stop, text))
        at = stop
    return [*filled, (at, end_s, "")] if at < end_s else filled


def _seconds(time_s: float) -> str:
    return f"{time_s:.6f}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
