"""Classes and emotion words that captions name, against true ones.

Of classes: accuracy, macro F1, confusion, and the majority baseline. A caption that names no class of an attribute
counts as wrong, never as left out. A clip whose true class is not known is left out.

Of emotion words: the set-based measure of open-vocabulary emotion recognition (OV-MERD; Lian et al. 2024), over groups
of an emotion wheel, so that words for one feeling count as one. It measures what no class covers: regret, doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final

import numpy as np
from pydantic import Field

from specdec_cli.evaluate.bootstrap import Figures, Interval, Resampler, Values, mean
from specdec_cli.labels import Lexicon

UNNAMED: Final = "none"
"""Column of the confusion for captions that name no class of the attribute."""

Predicted = Sequence[Mapping[str, str | None]]
Truth = Sequence[Mapping[str, str]]


class LabelQuality(Figures):
    """One attribute over the clips whose class is known."""

    clips: int = Field(description="clips whose reference has a class for it")
    accuracy: Interval = Field(description="share of them whose caption names that class; none named counts as wrong")
    macro_f1: float = Field(description="mean F1 of the classes that occur in the references, 0 to 1")
    majority: float = Field(description="accuracy of always naming the commonest class, 0 to 1")
    confusion: dict[str, dict[str, int]] = Field(
        description="class by the reference -> class in the caption (none: no class named) -> clips"
    )


class EmotionWords(Figures):
    """Means over the clips whose reference names an emotion; a caption that names none has precision and recall 0."""

    clips: int
    precision: Interval = Field(description="groups of the caption that the reference has / of the caption")
    recall: Interval = Field(description="groups of the reference that the caption has / of the reference")
    mean: Interval = Field(description="of precision and recall")


def label_scores(predicted: Predicted, truth: Truth, lexicon: Lexicon, resampler: Resampler) -> dict[str, LabelQuality]:
    """Scores of every attribute that at least one clip has a true class for, in the lexicon's order.

    `predicted` are as `Lexicon.labels` gives them [clips]; `truth` of the same clips leaves out what is not known.
    """
    found = {}
    for attribute, hits in label_hits(predicted, truth, lexicon).items():
        if accuracy := resampler.interval(mean(hits)):
            pairs = Counter(
                (known[attribute], named.get(attribute) or UNNAMED)
                for named, known in zip(predicted, truth, strict=True)
                if attribute in known
            )
            found[attribute] = _quality(pairs, lexicon.attributes[attribute], accuracy)
    return found


def label_hits(predicted: Predicted, truth: Truth, lexicon: Lexicon) -> dict[str, Values]:
    """For every attribute of the lexicon, 1 or 0 [clips] for right or wrong, NaN where the truth is unknown."""
    return {
        attribute: np.array(
            [
                float(named.get(attribute) == known[attribute]) if attribute in known else np.nan
                for named, known in zip(predicted, truth, strict=True)
            ]
        )
        for attribute in lexicon.attributes
    }


def attribute_table(hits: Mapping[str, Values]) -> Values:
    """The hits of all attributes, [clips, attributes]."""
    return np.stack(list(hits.values()), axis=1)


def _quality(pairs: Counter[tuple[str, str]], classes: Sequence[str], accuracy: Interval) -> LabelQuality:
    """From (true class, named class or "none") -> clips."""
    true, named = Counter[str](), Counter[str]()
    for (known, other), number in pairs.items():
        true[known] += number
        named[other] += number
    # F1 = 2 TP / (2 TP + FP + FN), and the two counts of a class add up to that denominator
    f1 = [2 * pairs[name, name] / (true[name] + named[name]) for name in true]
    return LabelQuality(
        clips=pairs.total(),
        accuracy=accuracy,
        macro_f1=sum(f1) / len(f1),
        majority=max(true.values()) / pairs.total(),
        confusion={name: {other: pairs[name, other] for other in (*classes, UNNAMED)} for name in classes},
    )


def word_scores(named: Sequence[Set[str]], known: Sequence[Set[str]], resampler: Resampler) -> EmotionWords | None:
    """Scores of the groups that captions name [clips] by those of their references; None: no reference names any."""
    rows = [
        (len(own & its) / len(own) if own else 0.0, len(own & its) / len(its)) if its else (np.nan, np.nan)
        for own, its in zip(named, known, strict=True)
    ]
    precision, recall = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    found = [resampler.interval(mean(values)) for values in (precision, recall, (precision + recall) / 2)]
    intervals = [interval for interval in found if interval is not None]
    if len(intervals) < len(found):
        return None
    names = dict(zip(("precision", "recall", "mean"), intervals, strict=True))
    return EmotionWords(clips=int(np.isfinite(recall).sum()), **names)
