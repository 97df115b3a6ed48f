"""How good each mode's captions are, against references and the cloud's captions, and how much of the gap it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from specdec_cli.evaluate.accuracy import EmotionWords, attribute_table, label_hits, label_scores, word_scores
from specdec_cli.evaluate.bootstrap import Resampler, Values, mean
from specdec_cli.evaluate.costs import Columns, oracle_of, spent
from specdec_cli.evaluate.frontier import measure_costs, oracle_curves
from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.evaluate.result import (
    Basis,
    ClipComparison,
    CloudAgreement,
    Gap,
    GapMeasure,
    ModeQuality,
)
from specdec_cli.evaluate.text_scores import chrf, clip_chrf, text_scores
from specdec_cli.prompts import Language
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.labels import Lexicon

Clips = Sequence[ClipComparison]


def quality(
    clips: Clips, language: Language, lexicon: Lexicon, resampler: Resampler, *, bertscore: bool = False
) -> list[ModeQuality]:
    """One entry a mode of at least one clip, in the order of `ClipComparison.captions`.

    Raises:
        ConfigError: BERTScore is requested and not available.
    """
    described = [clip for clip in clips if clip.reference_texts]
    reference_texts = [clip.reference_texts for clip in described]
    reference_words = [
        [word for text in clip.reference_texts for word in lexicon.emotions(text, language)] for clip in clips
    ]
    found = []
    for mode in clips[0].captions:
        texts = [clip.captions[mode] for clip in described]
        right = _right(clips, mode, lexicon)
        labels = [clip.labels[mode] for clip in clips], [clip.reference_labels for clip in clips]
        found.append(
            ModeQuality(
                mode=mode,
                agreement=_agreement(clips, mode, lexicon, resampler),
                text=text_scores(texts, reference_texts, language, bertscore=bertscore) if described else None,
                labels=label_scores(*labels, lexicon, resampler),
                label_mean=resampler.interval(mean(attribute_table(right))),
                emotions=_emotions(clips, mode, reference_words, lexicon, resampler),
            )
        )
    return found


def _right(clips: Clips, mode: Mode, lexicon: Lexicon) -> dict[str, Values]:
    """Attribute -> 1 or 0 for the reference's class or another [clips]; NaN where the reference names none."""
    return label_hits([clip.labels[mode] for clip in clips], [clip.reference_labels for clip in clips], lexicon)


def _like_cloud(clips: Clips, mode: Mode, lexicon: Lexicon) -> dict[str, Values]:
    """The same with the classes that the cloud's caption names for the reference's."""
    named = [{name: class_ for name, class_ in clip.labels["cloud"].items() if class_} for clip in clips]
    return label_hits([clip.labels[mode] for clip in clips], named, lexicon)


def _emotions(
    clips: Clips, mode: Mode, known: Sequence[Sequence[str]], lexicon: Lexicon, resampler: Resampler
) -> EmotionWords | None:
    """Scores of a mode's emotion words by other ones [clips]."""
    groups = lexicon.emotion_groups
    return word_scores([groups(clip.emotions[mode]) for clip in clips], [groups(its) for its in known], resampler)


def _agreement(clips: Clips, mode: Mode, lexicon: Lexicon, resampler: Resampler) -> CloudAgreement | None:
    if mode == "cloud" or "cloud" not in clips[0].captions:
        return None
    same = _like_cloud(clips, mode, lexicon)
    return CloudAgreement(
        exact=fmean(clip.captions[mode] == clip.captions["cloud"] for clip in clips),
        chrf=chrf([clip.captions[mode] for clip in clips], [[clip.captions["cloud"]] for clip in clips]),
        labels={attribute: resampler.value(mean(values)) for attribute, values in same.items()},
        label_mean=resampler.interval(mean(attribute_table(same))),
        emotions=_emotions(clips, mode, [clip.emotions["cloud"] for clip in clips], lexicon, resampler),
    )


def gaps(clips: Clips, lexicon: Lexicon, table: Mapping[Mode, Columns], resampler: Resampler) -> list[Gap]:
    """One gap a mode between the two and a measure, in the order of `SUBJECTS`.

    None where edge-only or cloud-only was not run. `table` holds what was measured of the same clips.
    """
    found: list[Gap] = []
    modes = list(clips[0].captions)
    if not {"edge", "cloud"} <= set(modes):
        return found
    for basis, measure, figures in _measures(clips, lexicon):
        of = {mode: np.asarray(figures(mode), dtype=np.float64) for mode in modes}
        best = oracle_of(of["edge"], of["cloud"], table) if measure in _OF_CLASSES else None
        curves = oracle_curves(best) if best else []
        for mode in modes:
            tables = of["edge"], of[mode], of["cloud"]
            if mode in ("edge", "cloud") or (gap := measure_gap(*tables, resampler)) is None:
                continue
            at_costs = measure_costs(tables, spent(mode, table), best, resampler, measurable=gap.closed is not None)
            found.append(Gap(mode=mode, basis=basis, measure=measure, at_costs=at_costs, oracle=curves, **dict(gap)))
    return found


_OF_CLASSES: Final[tuple[GapMeasure, ...]] = ("labels", "emotion")
_Quality = Callable[[Mode], Sequence[float] | Values]
"""How good each caption of a mode is, 0 to 1, [clips] or [clips, attributes]; NaN where that is not known."""


def _measures(clips: Clips, lexicon: Lexicon) -> Iterator[tuple[Basis, GapMeasure, _Quality]]:
    """What captions are measured by: references as far as there are any, and the cloud's captions."""

    def near(references: Sequence[Sequence[str]]) -> _Quality:
        return lambda mode: clip_chrf([clip.captions[mode] for clip in clips], references) / 100

    known = {attribute for clip in clips for attribute in clip.reference_labels}
    if known != {"emotion"}:
        yield "references", "labels", lambda mode: attribute_table(_right(clips, mode, lexicon))
    if "emotion" in known:
        yield "references", "emotion", lambda mode: _right(clips, mode, lexicon)["emotion"]
    yield "references", "chrf", near([clip.reference_texts for clip in clips])
    yield (
        "cloud",
        "captions",
        lambda mode: [float(clip.captions[mode] == clip.captions["cloud"]) for clip in clips],
    )
    yield "cloud", "labels", lambda mode: attribute_table(_like_cloud(clips, mode, lexicon))
    yield "cloud", "chrf", near([[clip.captions["cloud"]] for clip in clips])
