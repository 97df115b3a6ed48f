"""Classes read from captions against the classes of a table: accuracy, macro F1, confusion, and the majority baseline.

A caption that says nothing about an attribute counts as wrong, never as left out. A clip whose class the table does
not know is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specdec_cli.lexicon import Lexicon
from specdec_cli.metrics.bootstrap import Values

UNSAID: Final = "none"
"""Column of the confusion for captions that say nothing about the attribute, or contradict themselves."""

Predicted = Sequence[Mapping[str, str | None]]
Truth = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class LabelScores:
    """One attribute over the clips whose class is known.

    Attributes:
        accuracy: share of clips with the right class, 0 to 1.
        macro_f1: mean F1 of the classes that occur in the truth, 0 to 1.
        confusion: true class -> class that the caption says (or "none") -> clips; classes in the lexicon's order.
        majority: accuracy of always saying the commonest true class, 0 to 1.
        clips: how many clips have a known class.
    """

    accuracy: float
    macro_f1: float
    confusion: Mapping[str, Mapping[str, int]]
    majority: float
    clips: int


def label_scores(predicted: Predicted, truth: Truth, lexicon: Lexicon) -> dict[str, LabelScores]:
    """Scores of every attribute that at least one clip has a true class for, in the lexicon's order.

    Args:
        predicted: classes read from the captions [n], as `Lexicon.labels` gives them.
        truth: true classes of the same clips [n]; attributes that are not known are left out.
        lexicon: its attributes and classes.

    Raises:
        ValueError: lists of different length, or a class that the lexicon does not have.
    """
    found: dict[str, LabelScores] = {}
    for attribute, classes in lexicon.attributes.items():
        if pairs := _pairs(predicted, truth, attribute, classes):
            found[attribute] = _scores(pairs, classes)
    return found


def label_hits(predicted: Predicted, truth: Truth, lexicon: Lexicon) -> dict[str, Values]:
    """For every attribute of the lexicon, 1 or 0 per clip [n] for right or wrong, NaN where the truth is not known."""
    if len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} captions and the labels of {len(truth)} clips do not pair up")
    return {
        attribute: np.array(
            [
                float(said.get(attribute) == known[attribute]) if attribute in known else np.nan
                for said, known in zip(predicted, truth, strict=True)
            ]
        )
        for attribute in lexicon.attributes
    }


def attribute_table(hits: Mapping[str, Values]) -> Values:
    """The hits of all attributes, [clips, attributes]."""
    return np.stack(list(hits.values()), axis=1)


def _pairs(predicted: Predicted, truth: Truth, attribute: str, classes: Sequence[str]) -> Counter[tuple[str, str]]:
    """(true class, said class or "none") -> clips."""
    if len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} captions and the labels of {len(truth)} clips do not pair up")
    pairs: Counter[tuple[str, str]] = Counter()
    for said, known in zip(predicted, truth, strict=True):
        if attribute in known:
            pairs[known[attribute], said.get(attribute) or UNSAID] += 1
    if strange := {name for pair in pairs for name in pair} - {*classes, UNSAID}:
        raise ValueError(f"{attribute} has no class {', '.join(sorted(strange))}; it has {', '.join(classes)}")
    return pairs


def _scores(pairs: Counter[tuple[str, str]], classes: Sequence[str]) -> LabelScores:
    clips = pairs.total()
    true, said = Counter[str](), Counter[str]()
    for (known, spoken), number in pairs.items():
        true[known] += number
        said[spoken] += number
    present = [name for name in classes if true[name]]
    # F1 = 2 TP / (2 TP + FP + FN), and the two counts of a class add up to that denominator
    f1 = [2 * pairs[name, name] / (true[name] + said[name]) for name in present]
    return LabelScores(
        accuracy=sum(pairs[name, name] for name in present) / clips,
        macro_f1=sum(f1) / len(f1),
        confusion={name: {other: pairs[name, other] for other in (*classes, UNSAID)} for name in classes},
        majority=max(true.values()) / clips,
        clips=clips,
    )
