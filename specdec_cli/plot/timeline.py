"""What a picture shows of a recording: its pieces, and the rounds of their captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from specdec_cli.export.recordings import Piece, Stored
from specdec_cli.transcript.lines import transcript_at
from specdec_cli.transcript.records import Transcript

OVERVIEW: Final = "overview"


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A piece of a recording, or a whole one among many.

    Attributes:
        start, end: s; of the n-th of many clips n - 0.5 and n + 0.5.
        class_: of the attribute that is shown; None: the caption names none.
        run: its transcript.
    """

    start: float
    end: float
    speaker: str | None
    class_: str | None
    run: Transcript

    @property
    def measured(self) -> Mapping[str, float]:
        """Figure -> value, of those that were measured; the names are those of transcripts."""
        found = asdict(self.run.measured) if self.run.measured else {}
        return {name: value for name, value in found.items() if value is not None}


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
    spans: Sequence[TimelineSpan]


def timelines(stored: Stored, attribute: str, classes: Sequence[str]) -> Iterator[Timeline]:
    """One picture per recording that was captioned in pieces, and one of all that were captioned whole.

    Args:
        stored: the transcripts.
        attribute, classes: what to show, see `Timeline`.

    Raises:
        TranscriptError: a line holds something else.
    """

    def span(piece: Piece, start: float, end: float) -> TimelineSpan:
        run = transcript_at(stored.transcripts, piece.mark)
        return TimelineSpan(start, end, piece.speaker, piece.details.get(f"label_{attribute}"), run)

    recordings = list(stored)
    whole = [recording for recording in recordings if len(recording.pieces) == 1]
    for recording in recordings:
        if len(recording.pieces) > 1 or len(whole) == 1:
            spans = [span(piece, piece.start_ms / 1000, piece.end_ms / 1000) for piece in recording.pieces]
            yield Timeline(recording.name, recording.name, None, attribute, classes, spans)
    if len(whole) > 1:
        spans = [span(one.pieces[0], n - 0.5, n + 0.5) for n, one in enumerate(whole, 1)]
        title = f"{len(spans)} recordings of {stored.transcripts.name}"
        yield Timeline(OVERVIEW, title, [one.name for one in whole], attribute, classes, spans)
