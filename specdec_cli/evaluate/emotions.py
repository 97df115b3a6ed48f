"""Open emotion words of captions against others: precision, recall and their mean over groups of an emotion wheel.

The set-based measure of open-vocabulary emotion recognition (OV-MERD; Lian et al. 2024): words that say the same count
as one, so both sets hold groups of the lexicon's wheel. It judges what no class says: regret, doubt, determination.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from pydantic import Field

from specdec_cli.evaluate.bootstrap import Figures, Interval, Resampler, Values, mean

Groups = Set[str]


class EmotionWords(Figures):
    """Means over the clips whose reference names an emotion; a caption that names none has precision and recall 0."""

    clips: int
    precision: Interval = Field(description="groups of the caption that the reference has / of the caption")
    recall: Interval = Field(description="groups of the reference that the caption has / of the reference")
    mean: Interval = Field(description="of precision and recall")


def word_scores(said: Sequence[Groups], known: Sequence[Groups], resampler: Resampler) -> EmotionWords | None:
    """Scores of the groups that captions name [clips] by those of their references; None: no reference names any.

    Raises:
        ValueError: lists of different length.
    """
    precision, recall = _shares(said, known)
    found = [resampler.interval(mean(values)) for values in (precision, recall, (precision + recall) / 2)]
    if None in found:
        return None
    names = dict(zip(("precision", "recall", "mean"), found, strict=True))
    return EmotionWords(clips=int(np.isfinite(recall).sum()), **names)  # type: ignore[arg-type]


def _shares(said: Sequence[Groups], known: Sequence[Groups]) -> tuple[Values, Values]:
    """Precision and recall [clips]; NaN where the reference names nothing."""
    rows = [
        (len(own & its) / len(own) if own else 0.0, len(own & its) / len(its)) if its else (np.nan, np.nan)
        for own, its in zip(said, known, strict=True)
    ]
    precision, recall = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return precision, recall
