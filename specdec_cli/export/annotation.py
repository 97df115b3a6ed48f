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

from specdec_cli.export.recordings import CaptionedPiece, CaptionedRecording, columns, short_name
from specdec_cli.text import one_line

_Item = TypeVar("_Item")
_WITHOUT: Final = ("speaker", "agrees", "score")
"""Kinds of columns without a tier: a speaker has tiers of all others, and the rest are too many to work with."""
_EMPTY: Final = "…"
"""The label of an empty caption: an interval without a label would be a gap."""
_TEMPLATES: Final = Environment(
    loader=PackageLoader("specdec_cli", "export"), autoescape=lambda name: name == "eaf.xml.j2", trim_blocks=True
)


class Layer(NamedTuple):
    """Pieces of one speaker that never overlap, and the annotation tiers about them."""

    speaker: str | None  # None: unknown
    pieces: Sequence[CaptionedPiece]
    tiers: Mapping[str, Sequence[str]]  # name -> the text of each piece, maybe empty; captions first


def kinds_of(recordings: Iterable[CaptionedRecording]) -> dict[str, str]:
    """Column of `details` that has a text in any piece -> its kind of tier, in the order of `columns`."""
    pieces = (piece for recording in recordings for piece in recording.pieces)
    found = columns([name for name, value in piece.details.items() if _said(value)] for piece in pieces)
    return {column: short_name(column) for column in found if column.partition("_")[0] not in _WITHOUT}


def layers_of(recording: CaptionedRecording, kinds: Mapping[str, str]) -> Iterator[Layer]:
    """The tiers of a recording: `emotion`, `ann - emotion` (as the Montreal Forced Aligner names them).

    Each speaker has tiers of their own. Where pieces of one speaker overlap, the later one goes to a further layer:
    `ann - emotion (2)`. `kinds`: see `kinds_of`, of all recordings that are exported together; each has a tier, also
    where it is empty.
    """
    for speaker in dict.fromkeys(piece.speaker for piece in recording.pieces):
        own = [piece for piece in recording.pieces if piece.speaker == speaker]
        before = "" if speaker is None else f"{speaker} - "
        for number, pieces in enumerate(layers(own, lambda piece: piece.start_ms, lambda piece: piece.end_ms), 1):
            said = {"caption": [piece.caption or _EMPTY for piece in pieces]}
            said |= {kind: [_said(piece.details.get(column)) for piece in pieces] for column, kind in kinds.items()}
            after = f" ({number})" if number > 1 else ""
            yield Layer(speaker, pieces, {f"{before}{kind}{after}": texts for kind, texts in said.items()})


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
    """A Praat TextGrid in the long text format, of interval tiers (`kinds`: see `layers_of`), as long as the recording.

    Format: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
    """
    end = recording.duration_s
    tiers = [
        (name, _filled(layer.pieces, texts, end))
        for layer in layers_of(recording, kinds)
        for name, texts in layer.tiers.items()
    ]
    return _TEMPLATES.get_template("textgrid.j2").render(tiers=tiers, end=end, seconds=_seconds)


def eaf(recording: CaptionedRecording, kinds: Mapping[str, str], target: Path) -> str:
    """An ELAN annotation document, EAF 3.0: captions aligned to time, all else (`kinds`: see `layers_of`) attached.

    The tiers of a caption are its children (`Symbolic_Association`), so that ELAN moves them along with its boundaries.
    The recording is linked by its absolute path and by that relative to the target.

    Format: https://www.mpi.nl/tools/elan/EAF_Annotation_Format_3.0_and_ELAN.pdf
    """
    ids, slots = count(1), []
    tiers: list[tuple[str, str | None, str | None, Sequence[tuple[int, int | None, str]]]] = []
    for layer in layers_of(recording, kinds):
        (parent, captions), *children = layer.tiers.items()
        of = [next(ids) for _ in layer.pieces]
        slots += [(piece.start_ms, f"from{id_}") for id_, piece in zip(of, layer.pieces, strict=True)]
        slots += [(piece.end_ms, f"to{id_}") for id_, piece in zip(of, layer.pieces, strict=True)]
        tiers.append((parent, layer.speaker, None, [(id_, None, text) for id_, text in zip(of, captions, strict=True)]))
        for name, texts in children:
            said = [(next(ids), about, text) for about, text in zip(of, texts, strict=True) if text]
            tiers.append((name, layer.speaker, parent, said))
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


def _filled(pieces: Sequence[CaptionedPiece], texts: Sequence[str], end_s: float) -> list[tuple[float, float, str]]:
    """The intervals of a tier from 0 to the end, s, with empty ones in the gaps; the last one may have been rounded."""
    filled: list[tuple[float, float, str]] = []
    at = 0.0
    for piece, text in zip(pieces, texts, strict=True):
        start, stop = piece.start_ms / 1000, piece.end_ms / 1000
        if end_s - stop < 0.001:
            stop = end_s
        if at < start:
            filled.append((at, start, ""))
        filled.append((start, stop, text))
        at = stop
    return [*filled, (at, end_s, "")] if at < end_s else filled


def _seconds(time_s: float) -> str:
    return f"{time_s:.6f}".rstrip("0").rstrip(".")
