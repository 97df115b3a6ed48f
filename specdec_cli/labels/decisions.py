"""What the models decided in transcripts, and what is right by references."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.labels.calibration import sharpened
from specdec_cli.labels.references import References
from specdec_cli.transcript.lines import stored_lines, transcript_at
from specdec_cli.types import Decider, Mode


@dataclass(frozen=True, slots=True)
class Decision:
    """What one model gave the classes of one attribute in one clip, and which is right.

    Attributes:
        by, attribute: the model, and what it decided.
        classes: class -> probability, before any calibration.
        named, truth: the class in the caption, and the one in the references.
        group: the speaker, or the clip; groups are kept together when data is split.
        weights: fingerprint of the model's files.
        mode: that the caption was made in.
    """

    by: Decider
    attribute: str
    classes: Mapping[str, float]
    named: str
    truth: str
    group: str
    weights: str | None
    mode: Mode

    def probability(self, temperature: float) -> float:
        """Of the class in the caption, at a temperature."""
        return sharpened(self.classes, 1 / temperature)[self.named]


def read_decisions(paths: Sequence[Path], references: References) -> Iterator[Decision]:
    """The decisions in files of transcripts whose right class is known.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
    """
    for path in paths:
        for line in filter(operator.attrgetter("head.good"), stored_lines(path)):
            run = transcript_at(path, line)
            if (reference := references.find(run.file, run.start_s, run.end_s)) is None:
                continue
            for attribute, scores in (run.scores or {}).items():
                named, truth = (run.labels or {}).get(attribute), reference.labels.get(attribute)
                if named in scores.classes and truth in scores.classes:
                    model = run.models.edge if scores.by == "edge" else run.models.cloud
                    raw = sharpened(scores.classes, scores.temperature or 1.0)
                    group = reference.speaker or reference.key
                    weights = None if model is None else model.weights
                    yield Decision(scores.by, attribute, raw, named, truth, group, weights, run.mode)
