"""How good each mode's captions are, against references and the cloud's captions, and how much of the gap it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from specdec_cli.evaluate.accuracy import attribute_table, label_hits, label_scores
from specdec_cli.evaluate.bootstrap import Resampler, Values, mean
from specdec_cli.evaluate.costs import Columns, oracle_of, spendings
from specdec_cli.evaluate.emotions import EmotionWords, word_scores
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
class Judged:
    """The captions of at least one clip with what they are judged by: a reference per clip, or None."""

    pairing: Pairing
    language: Language
    lexicon: Lexicon
    references: tuple[Reference | None, ...]

    @cached_property
    def captions(self) -> dict[Mode, list[str]]:
        """Mode -> captions [clips]."""
        return {mode: [clip.caption(mode) for clip in self.pairing.clips] for mode in self.pairing.modes}

    @cached_property
    def said(self) -> dict[Mode, list[dict[str, str | None]]]:
        """Mode -> classes that each caption names [clips]."""
        return {
            mode: [self.lexicon.labels(text, self.language) for text in texts] for mode, texts in self.captions.items()
        }

    @cached_property
    def truth(self) -> list[Mapping[str, str]]:
        """Classes that the references give [clips]."""
        return [reference.labels if reference else {} for reference in self.references]

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """Reference texts [clips], empty where there are none."""
        return [reference.texts if reference else () for reference in self.references]

    @cached_property
    def emotions(self) -> dict[Mode, list[tuple[str, ...]]]:
        """Mode -> emotion words of each caption [clips]."""
        read = self.lexicon.emotions
        return {mode: [read(text, self.language) for text in texts] for mode, texts in self.captions.items()}

    @cached_property
    def reference_emotions(self) -> list[tuple[str, ...]]:
        """Emotion words of the reference texts [clips]."""
        read = self.lexicon.emotions
        return [tuple(word for text in texts for word in read(text, self.language)) for texts in self.texts]

    def emotion_scores(self, mode: Mode, known: Sequence[Sequence[str]], resampler: Resampler) -> EmotionWords | None:
        """Scores of a mode's emotion words by other ones [clips]."""
        groups = self.lexicon.emotion_groups
        return word_scores([groups(own) for own in self.emotions[mode]], [groups(its) for its in known], resampler)

    def right(self, mode: Mode) -> dict[str, Values]:
        """Attribute -> 1 or 0 for the reference's class or another [clips]; NaN where the reference names none."""
        return label_hits(self.said[mode], self.truth, self.lexicon)

    def like_cloud(self, mode: Mode) -> dict[str, Values]:
        """The same with the classes that the cloud's caption names for the reference's."""
        named = [{name: class_ for name, class_ in said.items() if class_} for said in self.said["cloud"]]
        return label_hits(self.said[mode], named, self.lexicon)


def quality(judged: Judged, resampler: Resampler, *, bertscore: bool = False) -> list[ModeQuality]:
    """One entry a mode, in their order.

    Raises:
        ConfigError: BERTScore is requested and not available.
    """
    return [
        ModeQuality(
            mode=mode,
            agreement=_agreement(judged, mode, resampler),
            text=_text(judged, mode, bertscore),
            labels=label_scores(judged.said[mode], judged.truth, judged.lexicon, resampler),
            label_mean=resampler.interval(mean(attribute_table(judged.right(mode)))),
            emotions=judged.emotion_scores(mode, judged.reference_emotions, resampler),
        )
        for mode in judged.pairing.modes
    ]


def _agreement(judged: Judged, mode: Mode, resampler: Resampler) -> CloudAgreement | None:
    from rapidfuzz.distance import Levenshtein

    if mode == "cloud" or "cloud" not in judged.pairing.modes:
        return None
    own, cloud = judged.captions[mode], judged.captions["cloud"]
    ids = [(_token_ids(clip.first(mode)), _token_ids(clip.first("cloud"))) for clip in judged.pairing.clips]
    same = judged.like_cloud(mode)
    return CloudAgreement(
        exact=fmean(one == other for one, other in zip(own, cloud, strict=True)),
        chrf=chrf(own, [[text] for text in cloud]),
        edit_tokens=fmean(Levenshtein.distance(*pair) for pair in ids),
        edit_share=fmean(Levenshtein.normalized_distance(*pair) for pair in ids),
        labels={attribute: resampler.value(mean(values)) for attribute, values in same.items()},
        label_mean=resampler.interval(mean(attribute_table(same))),
        emotions=judged.emotion_scores(mode, judged.emotions["cloud"], resampler),
    )


def _token_ids(transcript: Transcript) -> list[int]:
    return [id_ for record in transcript.rounds for id_ in record.committed_ids]


def _text(judged: Judged, mode: Mode, bertscore: bool) -> TextQuality | None:
    pairs = [(text, known) for text, known in zip(judged.captions[mode], judged.texts, strict=True) if known]
    if not pairs:
        return None
    captions, texts = zip(*pairs, strict=True)
    return text_scores(captions, texts, judged.language, bertscore=bertscore)


def gaps(judged: Judged, table: Mapping[Mode, Columns], resampler: Resampler) -> tuple[list[Gap], list[OracleFound]]:
    """One gap a mode between the two and a measure, and one oracle a measure of classes.

    None where edge-only or cloud-only was not run. `table` holds what was measured of the same clips.
    """
    found: list[Gap] = []
    oracles: list[OracleFound] = []
    modes = judged.pairing.modes
    if not {"edge", "cloud"} <= set(modes):
        return found, oracles
    for basis, measure, of in (*_by_references(judged), *_by_cloud(judged)):
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
_Measure = tuple[Basis, GapMeasure, Mapping[Mode, Values]]
"""The last: mode -> how good each caption is, 0 to 1, [clips] or [clips, attributes]; NaN where it cannot be judged."""


def _by_references(judged: Judged) -> Iterator[_Measure]:
    known = set().union(*judged.truth)
    if known != {"emotion"}:
        yield "references", "labels", _each(judged, lambda mode: attribute_table(judged.right(mode)))
    if "emotion" in known:
        yield "references", "emotion", _each(judged, lambda mode: judged.right(mode)["emotion"])
    yield "references", "chrf", _each(judged, lambda mode: clip_chrf(judged.captions[mode], judged.texts) / 100)


def _by_cloud(judged: Judged) -> Iterator[_Measure]:
    """Nearness to the cloud's captions, by which the cloud itself has 1."""
    cloud = judged.captions["cloud"]
    same = lambda mode: [float(own == its) for own, its in zip(judged.captions[mode], cloud, strict=True)]  # noqa: E731
    yield "cloud", "captions", _each(judged, same)
    yield "cloud", "labels", _each(judged, lambda mode: attribute_table(judged.like_cloud(mode)))
    texts = [(text,) for text in cloud]
    yield "cloud", "chrf", _each(judged, lambda mode: clip_chrf(judged.captions[mode], texts) / 100)


def _each(judged: Judged, figures: Callable[[Mode], Sequence[float] | Values]) -> dict[Mode, Values]:
    return {mode: np.asarray(figures(mode), dtype=np.float64) for mode in judged.pairing.modes}
