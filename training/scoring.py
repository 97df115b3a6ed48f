"""Scores of captions against labels: per attribute, per corpus, and the figures that the floors are stated in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdec_cli.prompts import Language
from training.captions import classes_in, is_well_formed
from training.labels import PROSODY, TRAINING_CORPORA, Row


@dataclass(frozen=True)
class Scored:
    """One caption of one clip, in the default style."""

    row: Row
    language: Language
    text: str

    @property
    def classes(self) -> dict[str, str]:
        """Classes that the caption names."""
        return classes_in(self.text, self.language)


def _rate(hits: Iterable[bool]) -> float | None:
    found = list(hits)
    return round(100.0 * sum(found) / len(found), 1) if found else None


def attribute_accuracy(scored: Sequence[Scored], attribute: str) -> float | None:
    """Per cent of captions with the right class, of those whose class is known; a missing word is wrong."""
    return _rate(
        item.classes.get(attribute) == item.row.classes[attribute] for item in scored if attribute in item.row.classes
    )


def majority(rows: Sequence[Row], attribute: str) -> float | None:
    """Per cent of the commonest class among the known ones: what a constant answer would score."""
    counts = Counter(row.classes[attribute] for row in rows if attribute in row.classes)
    return round(100.0 * max(counts.values()) / counts.total(), 1) if counts else None


def emotion_by_corpus(scored: Sequence[Scored]) -> dict[str, float | None]:
    """Emotion accuracy per corpus (calm counts as neutral), CREMA-D twice: agreed clips, and all by what was meant."""
    by_corpus: dict[str, list[Scored]] = defaultdict(list)
    for item in scored:
        by_corpus[item.row.corpus].append(item)
    found: dict[str, float | None] = {}
    for corpus, items in by_corpus.items():
        found[corpus] = attribute_accuracy([item for item in items if item.row.agreed], "emotion")
        if corpus == "cremad":
            found["cremad_all"] = attribute_accuracy(items, "emotion")
    return found


def summarise(scored: Sequence[Scored]) -> dict[str, float | None]:
    """All figures of one model in one language, per cent; a mean is None where one of its figures is not known.

    What is measured (the mean of five) and what is heard (voice and emotion) are never averaged: the first is agreement
    with a measurement, the second accuracy. Emotion is the mean over the training corpora, CREMA-D by its agreed clips.
    """
    by_corpus = emotion_by_corpus(scored)
    emotion = _mean([by_corpus[corpus] for corpus in TRAINING_CORPORA if corpus in by_corpus])
    prosody = {name: attribute_accuracy(scored, name) for name in PROSODY}
    return {
        "captions": len(scored),
        "well-formed": _rate(is_well_formed(item.text, item.language, "default") for item in scored),
        "measured, mean of five": _mean([value for name, value in prosody.items() if name != "voice"]),
        "heard, mean of voice and emotion": _mean([prosody["voice"], emotion]),
        "emotion, mean of corpora": emotion,
        **{f"emotion, {corpus}": share for corpus, share in sorted(by_corpus.items())},
        **prosody,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if len(known) == len(values) > 0 else None
