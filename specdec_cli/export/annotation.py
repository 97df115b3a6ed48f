"""Pieces of a recording as annotation tiers, in the files of Praat (TextGrid) and ELAN (EAF)."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

from specdec_cli.export.recordings import CaptionedRecording, columns, one_line, short_name

_Item = TypeVar("_Item")
_WITHOUT: Final = ("speaker", "agrees", "score")
"""What has no tiers of its own: a speaker has all tiers, and the rest would be too many to work with."""
_TEMPLATES: Final = Environment(
    loader=PackageLoader("specdec_cli", "export"), autoescape=lambda name: name == "eaf.xml.j2", trim_blocks=True
)


class Tier(NamedTuple):
    """Annotations that follow each other in time and never overlap."""

    name: str  # e.g. `emotion`, `ann - emotion` (as the Montreal Forced Aligner names tiers), `ann - emotion (2)`
    speaker: str | None  # None: unknown
    intervals: Sequence[tuple[int, int, str]]  # start and end, ms, and what is said; nothing: an empty text


def kinds_of(recordings: Iterable[CaptionedRecording]) -> dict[str, str]:
    """Column of `details` -> its kind of tier, of those that say something of any piece, in the order of `columns`."""
    pieces = (piece for recording in recordings for piece in recording.pieces)
    found = columns([name for name, value in piece.details.items() if _said(value)] for piece in pieces)
    return {column: short_name(column) for column in found if column.partition("_")[0] not in _WITHOUT}


def tiers_of(recording: CaptionedRecording, kinds: Mapping[str, str]) -> Iterator[list[Tier]]:
    """The tiers of a recording, those of the same pieces together: the caption first, then all else about them.

    Each speaker has tiers of their own. Where pieces of one speaker overlap, the later one goes to a further layer.
    `kinds`: see `kinds_of`, of all recordings that are exported together; each is there, also where it is empty.
    """
    for speaker in dict.fromkeys(piece.speaker for piece in recording.pieces):
        own = [piece for piece in recording.pieces if piece.speaker == speaker]
        before = "" if speaker is None else f"{speaker} - "
        for layer, pieces in enumerate(layers(own, lambda piece: piece.start_ms, lambda piece: piece.end_ms)):
            after = f" ({layer + 1})" if layer else ""
            said = {"caption": [piece.caption for piece in pieces]}
            said |= {kind: [_said(piece.details.get(column)) for piece in pieces] for column, kind in kinds.items()}
            starts, ends = [piece.start_ms for piece in pieces], [piece.end_ms for piece in pieces]
            yield [
                Tier(f"{before}{kind}{after}", speaker, [*zip(starts, ends, texts, strict=True)])
                for kind, texts in said.items()
            ]


def layers(items: Sequence[_Item], start: Callable[[_Item], float], end: Callable[[_Item], float]) -> list[list[_Item]]:
    """Items in order of their start, in as few rows without overlaps as possible."""
    rows: list[list[_Item]] = []
    for item in items:
        free = (row for row in rows if end(row[-1]) <= start(item))
        if (row := next(free, None)) is None:
            rows.append(row := [])
        row.append(item)
    return rows


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "review" if value else ""
    return one_line(value) if isinstance(value, str) else "" if value is None else f"{value:g}"


def textgrid(recording: CaptionedRecording, kinds: Mapping[str, str]) -> str:
    """A Praat TextGrid in the long text format, of interval tiers (`kinds`: see `tiers_of`), as long as the recording.

    Format: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
    """
    end = recording.duration_s
    tiers = [(tier.name, _filled(tier, end)) for group in tiers_of(recording, kinds) for tier in group]
    return _TEMPLATES.get_template("textgrid.j2").render(tiers=tiers, end=end, seconds=_seconds)


def eaf(recording: CaptionedRecording, kinds: Mapping[str, str], target: Path) -> str:
    """An ELAN annotation document, EAF 3.0: captions aligned to time, and all else (`kinds`: see `tiers_of`) attached.

    The tiers of a caption are its children (`Symbolic_Association`), so that ELAN moves them along with its boundaries.
    The recording is linked by its absolute path and by that relative to the target.

    Format: https://www.mpi.nl/tools/elan/EAF_Annotation_Format_3.0_and_ELAN.pdf
    """
    ids, slots = count(1), []
    tiers: list[tuple[Tier, Tier | None, list[tuple[int, int | None, str]]]] = []
    for parent, *children in tiers_of(recording, kinds):
        pieces = [(next(ids), *interval) for interval in parent.intervals]
        slots += [slot for id_, start, end, _ in pieces for slot in ((start, f"from{id_}"), (end, f"to{id_}"))]
        tiers.append((parent, None, [(id_, None, text) for id_, _, _, text in pieces]))
        for child in children:
            said = zip(pieces, child.intervals, strict=True)
            tiers.append((child, parent, [(next(ids), about[0], text) for about, (_, _, text) in said if text]))
    relative = os.path.relpath(recording.path, os.path.abspath(target.parent))
    return _TEMPLATES.get_template("eaf.xml.j2").render(
        date=recording.made.isoformat(timespec="seconds"),
        media=Path(recording.path).as_uri(),
        mime=mimetypes.guess_type(recording.path)[0] or "audio/x-wav",
        relative=quote(os.fsencode(relative if relative.startswith(os.pardir) else f"./{relative}")),
        last=next(ids) - 1,
        slots=sorted(slots),
        tiers=tiers,
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
