"""What the models decided in transcripts, beside what is right by references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from specdec_cli.batch.lines import Line, stored_lines
from specdec_cli.confidence.calibration import sharpened
from specdec_cli.errors import TranscriptError
from specdec_cli.inputs.references import Reference, References
from specdec_cli.transcript.schema import ClassScores
from specdec_cli.types import Decider, Mode


@dataclass(frozen=True, slots=True)
class Decision:
    """What one model gave the classes of one attribute in one clip, and which is right.

    Attributes:
        by, attribute: the model, and what it decided.
        classes: class -> probability, before any calibration.
        said, truth: the class in the caption, and the one in the references.
        group: the speaker, or the clip; groups are kept together when data is split.
        weights: fingerprint of the model's files.
        mode: that the caption was made in.
    """

    by: Decider
    attribute: str
    classes: Mapping[str, float]
    said: str
    truth: str
    group: str
    weights: str | None
    mode: Mode

    def probability(self, temperature: float) -> float:
        """Of the class in the caption, at a temperature."""
        return sharpened(self.classes, 1 / temperature)[self.said]


def finder(table: References) -> Callable[[Line], Reference | None]:
    """Finds the reference of a line."""
    return lambda line: table.find(line.values["file"], line.start_s, line.values.get("end_s"))


def read_decisions(paths: Sequence[Path], find: Callable[[Line], Reference | None]) -> Iterator[Decision]:
    """The decisions in files of transcripts whose right class is known.

    Args:
        paths: the files.
        find: the reference of a line, or None.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
    """
    for path in paths:
        for line in lines_of(path):
            reference = find(line)
            if reference is None:
                continue
            mode = line.values["mode"]
            for attribute, scores in scores_of(line, path).items():
                said, truth = (line.values.get("labels") or {}).get(attribute), reference.labels.get(attribute)
                if said in scores.classes and truth in scores.classes:
                    model = line.values["models"].get(scores.by) or {}
                    raw = sharpened(scores.classes, scores.temperature or 1.0)
                    group = reference.speaker or reference.key
                    yield Decision(scores.by, attribute, raw, said, truth, group, model.get("weights"), mode)


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file of transcripts that have a caption.

    Raises:
        TranscriptError: it holds something else, or cannot be read.
    """
    return (line for line in stored_lines(path) if line.good)


def scores_of(line: Line, path: Path) -> dict[str, ClassScores]:
    """Attribute -> scores in a line; empty if it was made without --labels.

    Raises:
        TranscriptError: they are malformed.
    """
    try:
        return {name: ClassScores.model_validate(given) for name, given in (line.values.get("scores") or {}).items()}
    except (ValidationError, AttributeError) as error:
        raise TranscriptError(
            f"{path}:{line.number} is no transcript of schema 1: its scores are malformed.", hint="Delete that line."
        ) from error
