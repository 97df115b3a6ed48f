"""How good each mode's captions are, against references and the cloud's captions, and how much of the gap it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from specdec_cli.evaluate.accuracy import EmotionWords, attribute_table, label_hits, label_scores, word_scores
from specdec_cli.evaluate.bootstrap import Resampler, Values, mean
from specdec_cli.evaluate.costs import Columns, oracle_of, spendings
from specdec_cli.evaluate.frontier import measure_costs, oracle_curves
from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.evaluate.pairing import Pairing
from specdec_cli.evaluate.result import Basis, CloudAgreement, Gap, GapMeasure, ModeQuality, OracleFound
from specdec_cli.evaluate.text_scores import TextQuality, chrf, clip_chrf, text_scores
from specdec_cli.prompts import Language
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.labels import Lexicon
    from specdec_cli.labels.references import Reference


@dataclass(frozen=True)
class Captions:
    """The captions of the compared clips, and what they are measured by: a reference per clip, or None."""

    pairing: Pairing
    language: Language
    lexicon: Lexicon
    references: tuple[Reference | None, ...]

    @cached_property
    def texts(self) -> dict[Mode, list[str]]:
        """Mode -> captions [clips]."""
        return {mode: [clip.caption(mode) for clip in self.pairing.clips] for mode in self.pairing.modes}

    @cached_property
    def labels(self) -> dict[Mode, list[dict[str, str | None]]]:
        """Mode -> classes that each caption names [clips]."""
        read = self.lexicon.labels
        return {mode: [read(text, self.language) for text in texts] for mode, texts in self.texts.items()}

    @cached_property
    def emotions(self) -> dict[Mode, list[tuple[str, ...]]]:
        """Mode -> emotion words of each caption [clips]."""
        read = self.lexicon.emotions
        return {mode: [read(text, self.language) for text in texts] for mode, texts in self.texts.items()}

    @cached_property
    def reference_labels(self) -> list[Mapping[str, str]]:
        """Classes that the references give [clips]."""
        return [reference.labels if reference else {} for reference in self.references]

    @cached_property
    def reference_texts(self) -> list[tuple[str, ...]]:
        """Reference texts [clips], empty where there are none."""
        return [reference.texts if reference else () for reference in self.references]

    @cached_property
    def reference_emotions(self) -> list[tuple[str, ...]]:
        """Emotion words of the reference texts [clips]."""
        read = self.lexicon.emotions
        return [tuple(word for text in texts for word in read(text, self.language)) for texts in self.reference_texts]

    def emotion_scores(self, mode: Mode, known: Sequence[Sequence[str]], resampler: Resampler) -> EmotionWords | None:
        """Scores of a mode's emotion words by other ones [clips]."""
        groups = self.lexicon.emotion_groups
        return word_scores([groups(own) for own in self.emotions[mode]], [groups(its) for its in known], resampler)

    def right(self, mode: Mode) -> dict[str, Values]:
        """Attribute -> 1 or 0 for the reference's class or another [clips]; NaN where the reference names none."""
        return label_hits(self.labels[mode], self.reference_labels, self.lexicon)

    def like_cloud(self, mode: Mode) -> dict[str, Values]:
        """The same with the classes that the cloud's caption names for the reference's."""
        named = [{name: class_ for name, class_ in labels.items() if class_} for labels in self.labels["cloud"]]
        return label_hits(self.labels[mode], named, self.lexicon)


def quality(captions: Captions, resampler: Resampler, *, bertscore: bool = False) -> list[ModeQuality]:
    """One entry a mode, in their order.

    Raises:
        ConfigError: BERTScore is requested and not available.
    """
    return [
        ModeQuality(
            mode=mode,
            agreement=_agreement(captions, mode, resampler),
            text=_text(captions, mode, bertscore),
            labels=label_scores(captions.labels[mode], captions.reference_labels, captions.lexicon, resampler),
            label_mean=resampler.interval(mean(attribute_table(captions.right(mode)))),
            emotions=captions.emotion_scores(mode, captions.reference_emotions, resampler),
        )
        for mode in captions.pairing.modes
    ]


def _agreement(captions: Captions, mode: Mode, resampler: Resampler) -> CloudAgreement | None:
    from rapidfuzz.distance import Levenshtein

    if mode == "cloud" or "cloud" not in captions.pairing.modes:
        return None
    own, cloud = captions.texts[mode], captions.texts["cloud"]
    ids = [(_token_ids(clip.first(mode)), _token_ids(clip.first("cloud"))) for clip in captions.pairing.clips]
    same = captions.like_cloud(mode)
    return CloudAgreement(
        exact=fmean(one == other for one, other in zip(own, cloud, strict=True)),
        chrf=chrf(own, [[text] for text in cloud]),
        edit_tokens=fmean(Levenshtein.distance(*pair) for pair in ids),
        edit_share=fmean(Levenshtein.normalized_distance(*pair) for pair in ids),
        labels={attribute: resampler.value(mean(values)) for attribute, values in same.items()},
        label_mean=resampler.interval(mean(attribute_table(same))),
        emotions=captions.emotion_scores(mode, captions.emotions["cloud"], resampler),
    )


def _token_ids(transcript: Transcript) -> list[int]:
    return [id_ for record in transcript.rounds for id_ in record.committed_ids]


def _text(captions: Captions, mode: Mode, bertscore: bool) -> TextQuality | None:
    pairs = [(text, known) for text, known in zip(captions.texts[mode], captions.reference_texts, strict=True) if known]
    if not pairs:
        return None
    texts, known = zip(*pairs, strict=True)
    return text_scores(texts, known, captions.language, bertscore=bertscore)


def gaps(
    captions: Captions, table: Mapping[Mode, Columns], resampler: Resampler
) -> tuple[list[Gap], list[OracleFound]]:
    """One gap a mode between the two and a measure, in the order of `SUBJECTS`, and one oracle a measure of classes.

    None where edge-only or cloud-only was not run. `table` holds what was measured of the same clips.
    """
    found: list[Gap] = []
    oracles: list[OracleFound] = []
    modes = captions.pairing.modes
    if not {"edge", "cloud"} <= set(modes):
        return found, oracles
    for basis, measure, figures in _measures(captions):
        of = {mode: np.asarray(figures(mode), dtype=np.float64) for mode in modes}
        best = oracle_of(of["edge"], of["cloud"], table) if measure in _OF_CLASSES else None
        for mode in modes:
            tables = of["edge"], of[mode], of["cloud"]
            if mode in ("edge", "cloud") or (gap := measure_gap(*tables, resampler)) is None:
                continue
            spent = measure_costs(tables, spendings(mode, table), best, resampler, measurable=gap.closed is not None)
            found.append(Gap(mode=mode, basis=basis, measure=measure, at_costs=spent, **dict(gap)))
        if best is not None and (curves := oracle_curves(best)):
            oracles.append(OracleFound(basis=basis, measure=measure, curves=curves))
    return found, oracles


_OF_CLASSES: Final[tuple[GapMeasure, ...]] = ("labels", "emotion")
_Quality = Callable[[Mode], Sequence[float] | Values]
"""How good each caption of a mode is, 0 to 1, [clips] or [clips, attributes]; NaN where that is not known."""


def _measures(captions: Captions) -> Iterator[tuple[Basis, GapMeasure, _Quality]]:
    """What captions are measured by: references as far as there are any, and the cloud's captions."""
    known = set().union(*captions.reference_labels)
    cloud = captions.texts["cloud"]

    def near(references: Sequence[Sequence[str]]) -> _Quality:
        return lambda mode: clip_chrf(captions.texts[mode], references) / 100

    if known != {"emotion"}:
        yield "references", "labels", lambda mode: attribute_table(captions.right(mode))
    if "emotion" in known:
        yield "references", "emotion", lambda mode: captions.right(mode)["emotion"]
    yield "references", "chrf", near(captions.reference_texts)
    yield (
        "cloud",
        "captions",
        lambda mode: [float(own == its) for own, its in zip(captions.texts[mode], cloud, strict=True)],
    )
    yield "cloud", "labels", lambda mode: attribute_table(captions.like_cloud(mode))
    yield "cloud", "chrf", near([(text,) for text in cloud])
