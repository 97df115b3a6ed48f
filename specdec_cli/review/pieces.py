"""The pieces that a review is about, as transcripts have them, the doubtful ones first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from specdec_cli.errors import TranscriptError
from specdec_cli.export.recordings import Stored
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.transcript.lines import transcript_at
from specdec_cli.transcript.records import Transcript, readable

_SHOWN: Final = {"language", "caption", "flags", "scores", "speaker", "text", "measured", "agrees"}
"""Fields of a transcript that the page shows as they are, where it has them."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A captioned recording, or a captioned piece of one."""

    run: Transcript
    labels: Mapping[str, str | None]  # attribute -> class that the caption names
    truth: Mapping[str, str]  # attribute -> class, from references

    @property
    def doubt(self) -> float | None:
        """1 - probability of the least likely class that the caption names, 0 to 1; None without probabilities."""
        scores = self.run.scores or {}
        named = [each.classes.get(self.labels.get(name) or "", 0.0) for name, each in scores.items()]
        return 1 - min(named) if named else None

    @property
    def doubtful(self) -> bool:
        """Whether a person should look at it: the models disagree, a class is unlikely, or it is no description."""
        return self.run.needs_review is True or bool(self.run.flags)

    @property
    def span(self) -> tuple[float, float] | None:
        """Start and end in the recording, s; None: all of it."""
        run = self.run
        return None if run.start_s is None or run.end_s is None else (run.start_s, run.end_s)

    def shown(self) -> dict[str, Any]:
        """What the page's script reads of it."""
        run = self.run
        return {
            "file": readable(run.file),
            "name": readable(PurePath(run.file).name or run.file),
            "start": run.start_s,
            "end": run.end_s,
            "seconds": run.duration_s,
            "review": self.doubtful,
            "doubt": self.doubt,
            "labels": self.labels,
            "truth": self.truth,
            "scores": {},
            **{name: value for name, value in run.model_dump(mode="json", include=_SHOWN).items() if value is not None},
        }


def read_pieces(
    paths: Sequence[Path], lexicon: Lexicon, references: References | None, mode: str | None = None
) -> list[ReviewItem]:
    """The pieces in files of transcripts, the most doubtful first; of a recording captioned again, the last ones.

    `lexicon` finds the classes of transcripts without labels, `references` have those that are known, and `mode`
    chooses captions of one mode.

    Raises:
        TranscriptError: a file holds something else, or no caption.
        ConfigError: a recording has captions in several modes.
    """
    found: dict[tuple[object, ...], ReviewItem] = {}
    known = lexicon.attributes  # a correction is a class that tables of references may name
    for path in paths:
        for piece in (piece for recording in Stored.read(path, mode=mode) for piece in recording.pieces):
            run = transcript_at(path, piece.line)
            labels = lexicon.labels(run.caption or "", run.language) if run.labels is None else run.labels
            labels = {name: of if of in known[name] else None for name, of in labels.items() if name in known}
            reference = None if references is None else references.find(run.file, run.start_s, run.end_s)
            truth = {} if reference is None else reference.labels
            found[os.path.abspath(run.file), run.start_s] = ReviewItem(run, labels, truth)
    if not found:
        raise TranscriptError(
            f"{', '.join(map(str, paths))} holds no caption.", hint="Caption recordings first: specdec batch --labels"
        )
    return sorted(found.values(), key=lambda piece: (not piece.doubtful, -(piece.doubt or 0.0)))
