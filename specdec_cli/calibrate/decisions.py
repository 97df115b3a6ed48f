"""Decisions of models between classes, beside the classes that are right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.labels.calibration import sharpened
from specdec_cli.labels.references import References
from specdec_cli.transcript.lines import Line, LineState, latest, stored_lines
from specdec_cli.transcript.terms import made_by
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

    A caption that two files hold counts once. Of a clip that one file has captioned twice alike, the last one counts.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
        ReferencesError: the references are about none of the recordings, or one row may be about several.
    """
    found = dict[tuple[object, ...], Line]()
    for path in paths:
        clips: defaultdict[tuple[object, ...], list[Line]] = defaultdict(list)
        for line in stored_lines(path):
            clips[line.key, line.head.prompt, made_by(line.head)].append(line)
        for clip, lines in clips.items():
            found |= {(*clip, LineState.of(line).place): line for line in latest(lines)}
    references.require_some(sorted({line.head.file for line in found.values()}))
    for head in (line.head for line in found.values() if line.head.good):
        if (reference := references.of(head)) is None:
            continue
        for attribute, scores in (head.scores or {}).items():
            named, truth = (head.labels or {}).get(attribute), reference.labels.get(attribute)
            if named in scores.classes and truth in scores.classes:
                model = head.models.edge if scores.by == "edge" else head.models.cloud
                weights, group = None if model is None else model.weights, reference.speaker or reference.key
                raw = sharpened(scores.classes, scores.temperature or 1.0)
                yield Decision(scores.by, attribute, raw, named, truth, group, weights, head.mode)
