"""Decisions of models between classes, beside the classes that are right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.inputs.recording import Key
from specdec_cli.labels.calibration import sharpened
from specdec_cli.labels.references import References
from specdec_cli.transcript.lines import Line, Mark, standing, stored_lines
from specdec_cli.types import Decider, Mode


@dataclass(frozen=True, slots=True)
class Decision:
    """The probabilities that one model gave the classes of one attribute in one clip, and the class that is right."""

    by: Decider
    attribute: str
    classes: Mapping[str, float]  # class -> probability, before any calibration
    named: str  # the class in the caption
    truth: str  # the class in the references
    group: str  # the speaker, or the clip; groups are kept together when data is split
    weights: str | None  # fingerprint of the model's files
    mode: Mode  # that the caption was made in


def read_decisions(paths: Sequence[Path], references: References) -> Iterator[Decision]:
    """The decisions in files of transcripts whose right class is known.

    Of a clip that one file has captioned twice in one mode, the last caption counts.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
    """
    for head in (line.head for path in paths for line in _current(path) if line.head.good):
        if (reference := references.of(head)) is None:
            continue
        for attribute, scores in (head.scores or {}).items():
            named, truth = (head.labels or {}).get(attribute), reference.labels.get(attribute)
            if named in scores.classes and truth in scores.classes:
                model = head.models.edge if scores.by == "edge" else head.models.cloud
                weights, group = None if model is None else model.weights, reference.speaker or reference.key
                raw = sharpened(scores.classes, scores.temperature or 1.0)
                yield Decision(scores.by, attribute, raw, named, truth, group, weights, head.mode)


def _current(path: Path) -> Iterator[Line]:
    """The lines of a file that no later line of the same clip and mode replaces."""
    clips: defaultdict[tuple[Key, Mode], dict[int, Line]] = defaultdict(dict)
    for line in stored_lines(path):
        clips[line.key, line.head.mode][line.offset] = line
    for lines in clips.values():
        yield from (lines[mark.offset] for mark in standing(map(Mark.of, lines.values())))
