"""The `scores` of a transcript: calibrated probabilities of classes, and whether a person should look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Calibration
from specdec_cli.labels.probabilities import Classes, Decode, tokens_of
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import ClassScores
from specdec_cli.types import Round

DOUBTFUL: Final = 0.5
"""A caption needs a review where a class that it names is less likely than this."""


class Scorer:
    """Scores the classes that captions name.

    Args:
        lexicon: finds the classes.
        calibration: of the models that decide; None: probabilities stay as they are.
    """

    def __init__(self, lexicon: Lexicon, calibration: Calibration | None = None) -> None:
        self.lexicon, self.calibration = lexicon, calibration
        self._classes: dict[Language, Classes] = {}

    def scores(
        self, rounds: Sequence[Round], decode: Decode, language: Language, labels: Mapping[str, str | None]
    ) -> dict[str, ClassScores]:
        """Attribute -> scores, for the classes that a caption names.

        Args:
            rounds: of the clip, by a loop that kept alternatives.
            decode: token ids to text.
            language: of the caption.
            labels: classes that the caption names, which may end before the rounds do.
        """
        classes = self._classes.setdefault(language, Classes(self.lexicon, language, self.calibration))
        found = classes.scores(list(tokens_of(rounds)), decode)
        return {name: scores for name, (named, scores) in found.items() if labels.get(name) == named}


def needs_review(labels: Mapping[str, str | None], scores: Mapping[str, ClassScores]) -> bool:
    """Whether the two models disagree about a class that the caption names, or one is less likely than `DOUBTFUL`."""
    return any(
        each.edge is not None or (class_ is not None and each.classes[class_] < DOUBTFUL)
        for name, each in scores.items()
        for class_ in (labels.get(name),)
    )
