"""The criterion by which a recipe is chosen: leave one corpus out.

A recipe trains on three of the four corpora and is judged on the fourth, four ways, under several seeds. Speakers of
the corpora that were trained on say how well it knows these recordings, the left-out corpus how well it does on others.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from training.labels import REPORT_SPEAKERS, Row, dev_rows, training_rows

FINAL_CORPUS: Final = "casia"
"""For one look at the end: judged by what all four corpora train."""

Named = Mapping[str, str]
"""Attribute -> class that a model names for a clip; without an attribute that it does not name."""


@dataclass(frozen=True)
class Fold:
    """One way to leave a corpus out.

    Attributes:
        left_out: the corpus.
        training: clips of the other corpora's training speakers.
        unseen: clips of the corpus with a known emotion that listeners heard too, without its report speakers.
        held_back: the same of the other corpora's dev speakers.
    """

    left_out: str
    training: list[Row]
    unseen: list[Row]
    held_back: list[Row]


@dataclass(frozen=True)
class Figures:
    """Shares in per cent, means over the corpora of the clips. Chance: 100 / 7 for emotion, 50 for voice.

    Attributes:
        emotion, voice: unweighted recall, the mean over a corpus's classes of the share that was named right.
        most_named: share of the emotion that is named most, if a corpus had each of its emotions equally often.
    """

    emotion: float
    voice: float
    most_named: float


@dataclass(frozen=True)
class Judged:
    """Figures of one fold under one seed."""

    left_out: str
    seed: int
    unseen: Figures
    held_back: Figures


def fold(rows: Iterable[Row], left_out: str) -> Fold:
    """The fold that leaves out the corpus `left_out`."""
    known = list(rows)
    other = [row for row in known if row.corpus != left_out]
    own = [row for row in known if row.corpus == left_out and row.speaker not in REPORT_SPEAKERS]
    return Fold(left_out, training_rows(other), _clear(own), _clear(dev_rows(other)))


def _clear(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "emotion" in row.classes and row.agreed]


def recalls(rows: Sequence[Row], named: Sequence[Named], attribute: str) -> dict[str, float]:
    """Class -> per cent of its clips for which it was named; clips whose class is unknown are left out."""
    total, right = Counter[str](), Counter[str]()
    for row, found in zip(rows, named, strict=True):
        if attribute in row.classes:
            total[row.classes[attribute]] += 1
            right[row.classes[attribute]] += found.get(attribute) == row.classes[attribute]
    return {name: 100.0 * right[name] / count for name, count in total.items()}


def most_named(rows: Sequence[Row], named: Sequence[Named]) -> float:
    """Per cent of the emotion that is named most, every emotion of the clips weighted equally."""
    total = Counter(row.classes["emotion"] for row in rows)
    shares = defaultdict[str | None, float](float)
    for row, found in zip(rows, named, strict=True):
        shares[found.get("emotion")] += 100.0 / (len(total) * total[row.classes["emotion"]])
    return max(shares.values())


def judge(rows: Sequence[Row], named: Sequence[Named]) -> Figures:
    """Figures of what was `named` for `rows`, each of which has an emotion."""
    by_corpus = defaultdict[str, tuple[list[Row], list[Named]]](lambda: ([], []))
    for row, found in zip(rows, named, strict=True):
        own, names = by_corpus[row.corpus]
        own.append(row)
        names.append(found)
    groups = by_corpus.values()
    return Figures(
        emotion=statistics.fmean(statistics.fmean(recalls(*group, "emotion").values()) for group in groups),
        voice=statistics.fmean(statistics.fmean(recalls(*group, "voice").values()) for group in groups),
        most_named=statistics.fmean(most_named(*group) for group in groups),
    )


def table(recipes: Mapping[str, Sequence[Judged]]) -> str:
    """A Markdown table of recipes by name: means over folds and seeds, then the unseen emotion by left-out corpus.

    `FINAL_CORPUS` has a column, but no part in the means.
    """
    corpora = list(dict.fromkeys(each.left_out for judged in recipes.values() for each in judged))
    heads = ["recipe", "emotion", "lowest seed", "voice, lowest", "most named, highest", "held back: emotion", "voice"]
    lines = ["| " + " | ".join([*heads, *corpora]) + " |", "|---" * (len(heads) + len(corpora)) + "|"]
    for name, judged in recipes.items():
        lines.append("| " + " | ".join([name, *(f"{value:.1f}" for value in _summary(judged, corpora))]) + " |")
    return "\n".join(lines)


def _summary(judged: Sequence[Judged], corpora: Sequence[str]) -> list[float]:
    chosen_on = [each for each in judged if each.left_out != FINAL_CORPUS]
    seeds = {each.seed for each in chosen_on}
    return [
        statistics.fmean(each.unseen.emotion for each in chosen_on),
        min(statistics.fmean(each.unseen.emotion for each in chosen_on if each.seed == seed) for seed in seeds),
        min(each.unseen.voice for each in chosen_on),
        max(each.unseen.most_named for each in chosen_on),
        statistics.fmean(each.held_back.emotion for each in chosen_on),
        statistics.fmean(each.held_back.voice for each in chosen_on),
        *(statistics.fmean(each.unseen.emotion for each in judged if each.left_out == corpus) for corpus in corpora),
    ]
