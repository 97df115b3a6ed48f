"""Pieces of a recording as annotation tiers: what each says of one matter, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from specdec_cli.export.recordings import CaptionedRecording, columns, one_line, short_names

_Item = TypeVar("_Item")
_WITHOUT: Final = ("speaker", "agrees", "score")
"""What has no tiers of its own: a speaker has all tiers, and the rest would be too many to work with."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Annotations that follow each other in time and never overlap.

    Attributes:
        kind: what they say: `caption`, or a column of `details`.
        speaker: None: unknown.
        layer: 0, or a higher number for pieces that overlap others of the same speaker.
        intervals: start and end in ms, and what is said; an empty text where there is nothing to say.
    """

    kind: str
    speaker: str | None
    layer: int
    intervals: tuple[tuple[int, int, str], ...]

    @property
    def name(self) -> str:
        """E.g. `emotion`, `ann - emotion` (as the Montreal Forced Aligner names tiers), `ann - emotion (2)`."""
        name = self.kind if self.speaker is None else f"{self.speaker} - {self.kind}"
        return f"{name} ({self.layer + 1})" if self.layer else name


def kinds_of(recordings: Iterable[CaptionedRecording]) -> dict[str, str]:
    """Column of `details` -> its kind of tier, of those that say something of any piece, in the order of `columns`."""
    pieces = (piece for recording in recordings for piece in recording.pieces)
    names = short_names(columns([name for name, value in piece.details.items() if _said(value)] for piece in pieces))
    return {column: name for column, name in names.items() if column.partition("_")[0] not in _WITHOUT}


def tiers_of(recording: CaptionedRecording, kinds: Mapping[str, str]) -> Iterator[list[Tier]]:
    """The tiers of a recording, those of the same pieces together: the caption first, then all else about them.

    Each speaker has tiers of their own. Where pieces of one speaker overlap, the later one goes to a further layer.

    Args:
        recording: of which the tiers are.
        kinds: see `kinds_of`, of all recordings that are exported together; each is there, also where it is empty.
    """
    for speaker in recording.speakers:
        own = [piece for piece in recording.pieces if piece.speaker == speaker]
        for layer, pieces in enumerate(layers(own, lambda piece: piece.start_ms, lambda piece: piece.end_ms)):
            found = {"caption": ("caption", [piece.caption for piece in pieces])}
            found |= {column: (name, [_said(p.details.get(column)) for p in pieces]) for column, name in kinds.items()}
            yield [
                Tier(kind, speaker, layer, tuple((p.start_ms, p.end_ms, t) for p, t in zip(pieces, said, strict=True)))
                for kind, said in found.values()
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
    if isinstance(value, str):
        return one_line(value)
    return f"{value:g}" if isinstance(value, int | float) else ""
