"""The pieces that a review is about, as transcripts have them, the doubtful ones first."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from specdec_cli.batch.lines import Line
from specdec_cli.calibrate.decisions import scores_of
from specdec_cli.errors import TranscriptError
from specdec_cli.export.recordings import Stored
from specdec_cli.inputs.recording import stored_path
from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics import References
from specdec_cli.transcript.schema import ClassScores, readable

_FURTHER: Final[Mapping[str, type]] = {"speaker": str, "text": str, "measured": dict, "agrees": dict}
"""Fields that a transcript may have, and that are shown as they are."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A captioned recording, or a captioned piece of one.

    Attributes:
        file: as the transcript names it.
        sha256: of the recording.
        start_s, end_s: in the recording; None: all of it.
        duration_s: its length.
        language, caption: of the caption.
        labels: attribute -> class that the caption names.
        scores: attribute -> probabilities, where the transcript has them.
        needs_review: as the transcript has it; None: it does not say.
        further: speaker, text, measured, agrees, as far as the transcript has them.
        truth: attribute -> class, from references.
    """

    file: str
    sha256: str | None
    start_s: float | None
    end_s: float | None
    duration_s: float
    language: str
    caption: str
    labels: Mapping[str, str | None]
    scores: Mapping[str, ClassScores]
    needs_review: bool | None
    further: Mapping[str, Any]
    truth: Mapping[str, str]

    @property
    def doubt(self) -> float | None:
        """1 - probability of the least likely class that the caption names, 0 to 1; None without probabilities."""
        named = [each.classes.get(self.labels.get(name) or "", 0.0) for name, each in self.scores.items()]
        return 1 - min(named) if named else None

    def shown(self) -> dict[str, Any]:
        """What the page's script reads of it."""
        return {
            "file": readable(self.file),
            "name": readable(PurePath(self.file).name or self.file),
            "start": self.start_s,
            "end": self.end_s,
            "seconds": self.duration_s,
            "language": self.language,
            "caption": readable(self.caption),
            "labels": self.labels,
            "scores": {name: each.model_dump(mode="json") for name, each in self.scores.items()},
            "review": self.needs_review,
            "doubt": self.doubt,
            "truth": self.truth,
            **self.further,
        }

    @property
    def path(self) -> str:
        """Of the recording, to be opened."""
        return stored_path(self.file)


def read_pieces(
    paths: Sequence[Path], lexicon: Lexicon, references: References | None, mode: str | None = None
) -> list[ReviewItem]:
    """The pieces in files of transcripts, the most doubtful first; of a recording captioned again, the last ones.

    Args:
        paths: the files.
        lexicon: finds the classes in captions of transcripts without labels.
        references: have the classes that are known; None: there are none.
        mode: choose captions of that mode; None: all.

    Raises:
        TranscriptError: a file holds something else, or no caption.
        ConfigError: a recording has captions in several modes.
    """
    found: dict[tuple[object, ...], ReviewItem] = {}
    for path in paths:
        stored = Stored.read(path, mode=mode)
        for line in filter(operator.attrgetter("good"), stored.lines(stored.runs)):
            found[os.path.abspath(line.values["file"]), line.start_s] = _piece(line, path, lexicon, references)
    if not found:
        raise TranscriptError(
            f"{', '.join(map(str, paths))} holds no caption.", hint="Caption recordings first: specdec batch --labels"
        )
    return sorted(found.values(), key=lambda piece: (not piece.needs_review, -(piece.doubt or 0.0)))


def _piece(line: Line, path: Path, lexicon: Lexicon, references: References | None) -> ReviewItem:
    values = line.values
    start, end, duration = (_number(values.get(name)) for name in ("start_s", "end_s", "duration_s"))
    reference = None if references is None else references.find(values["file"], start, end)
    said = values.get("labels")
    labels = lexicon.labels(values["caption"], values["language"]) if said is None else said
    in_order = (start is None and end is None) or (start is not None and end is not None and 0 <= start < end)
    if duration is None or not in_order or any(not isinstance(class_, str | None) for class_ in labels.values()):
        message = f"{path}:{line.number} is no transcript of schema 1: its labels or times are malformed."
        raise TranscriptError(message, hint="Delete that line.")
    known = lexicon.attributes  # a correction is a class that tables of references may name
    labels = {name: class_ if class_ in known[name] else None for name, class_ in labels.items() if name in known}
    return ReviewItem(
        file=values["file"],
        sha256=values.get("sha256"),
        start_s=start,
        end_s=end,
        duration_s=duration,
        language=values["language"],
        caption=values["caption"],
        labels=labels,
        scores=scores_of(line, path),
        needs_review=values.get("needs_review") if isinstance(values.get("needs_review"), bool) else None,
        further=dict(_further(values)),
        truth={} if reference is None else dict(reference.labels),
    )


def _further(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, kind in _FURTHER.items():
        if isinstance(value := values.get(name), kind):
            yield name, readable(value) if isinstance(value, str) else value


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
