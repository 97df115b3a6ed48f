"""What a picture shows of a recording: its pieces, their classes and figures, and the rounds of their captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from specdec_cli.export.recordings import Piece, Stored
from specdec_cli.transcript.lines import transcript_at
from specdec_cli.types import Measured

OVERVIEW: Final = "overview"


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A piece of a recording, or a whole one among many.

    Attributes:
        start, end: s; of the n-th of many clips n - 0.5 and n + 0.5.
        class_: of the attribute that is shown; None: the caption names none.
        measured: figure -> value, of those that were measured; the names are those of transcripts.
        disputed: attributes of which the caption says something else than the measurement.
        flagged: whether it is no description of a voice.
        rounds: largest entropy of each block that was drafted, nats, and whether it was escalated.
    """

    start: float
    end: float
    speaker: str | None
    class_: str | None
    measured: Mapping[str, float]
    disputed: frozenset[str]
    needs_review: bool
    flagged: bool
    rounds: tuple[tuple[float, bool], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What one picture shows.

    Attributes:
        name: of its file, without suffix.
        title: for people.
        clips: names of the recordings whose whole clips stand side by side; None: `spans` are pieces over time.
        attribute: whose classes are shown.
        classes: of the attribute, in the lexicon's order.
        spans: in order.
    """

    name: str
    title: str
    clips: Sequence[str] | None
    attribute: str
    classes: Sequence[str]
    spans: tuple[TimelineSpan, ...]

    @property
    def speakers(self) -> list[str]:
        """Everybody known, in order."""
        return list(dict.fromkeys(span.speaker for span in self.spans if span.speaker is not None))

    @property
    def measured(self) -> list[str]:
        """Figures that some piece has; the level in dBFS alone where it is known."""
        found = dict.fromkeys(name for span in self.spans for name in span.measured)
        return [name for name in found if name != "level_relative_db" or "level_dbfs" not in found]


def timelines(stored: Stored, attribute: str, classes: Sequence[str]) -> Iterator[Timeline]:
    """One picture per recording that was captioned in pieces, and one of all that were captioned whole.

    Args:
        stored: the transcripts.
        attribute, classes: what to show, see `Timeline`.

    Raises:
        TranscriptError: a line holds something else.
    """
    recordings = list(stored)
    whole = [recording for recording in recordings if len(recording.pieces) == 1]
    for recording in recordings:
        if len(recording.pieces) > 1 or len(whole) == 1:
            places = [(piece, piece.start_ms / 1000, piece.end_ms / 1000) for piece in recording.pieces]
            spans = tuple(_span(stored, piece, attribute, start, end) for piece, start, end in places)
            yield Timeline(recording.name, recording.name, None, attribute, classes, spans)
    if len(whole) > 1:
        spans = tuple(_span(stored, one.pieces[0], attribute, n - 0.5, n + 0.5) for n, one in enumerate(whole, 1))
        title = f"{len(spans)} recordings of {stored.transcripts.name}"
        yield Timeline(OVERVIEW, title, [one.name for one in whole], attribute, classes, spans)


def _span(stored: Stored, piece: Piece, attribute: str, start: float, end: float) -> TimelineSpan:
    run = transcript_at(stored.transcripts, piece.mark)
    return TimelineSpan(
        start,
        end,
        piece.speaker,
        piece.details.get(f"label_{attribute}"),
        {name: value for name, value in asdict(run.measured or Measured()).items() if value is not None},
        frozenset(name for name, fits in (run.agrees or {}).items() if fits is False),
        run.needs_review is True,
        bool(run.flags),
        tuple((block.max_entropy, block.escalated) for block in run.rounds if block.max_entropy is not None),
    )
