"""How good each mode's captions are, against references and the cloud's captions, and how much of the gap it closes.

A caption that names no class of an attribute counts as wrong, never as left out. A clip whose true class is not known
is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from specdec_cli.evaluate.bootstrap import Resampler, Values, mean
from specdec_cli.evaluate.costs import Columns, spent
from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.evaluate.result import Basis, ClipComparison, Gap, GapMeasure, LabelQuality, ModeQuality
from specdec_cli.evaluate.text_scores import clip_chrf, text_scores
from specdec_cli.prompts import Language
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.labels import Lexicon

Clips = Sequence[ClipComparison]
Named = Sequence[Mapping[str, str | None]]  # of each clip: attribute -> class that a caption names
Truth = Sequence[Mapping[str, str]]  # of each clip: attribute -> true class, of those that are known


def label_hits(named: Named, truth: Truth, lexicon: Lexicon) -> Values:
    """[clips, attributes of the lexicon] 1 or 0 for right or wrong, NaN where the truth is unknown."""
    return np.array(
        [
            [float(own.get(name) == known[name]) if name in known else np.nan for name in lexicon.attributes]
            for own, known in zip(named, truth, strict=True)
        ]
    )


def label_scores(named: Named, truth: Truth, lexicon: Lexicon, resampler: Resampler) -> dict[str, LabelQuality]:
    """Scores of every attribute that at least one clip has a true class for, in the lexicon's order."""
    found = {}
    for attribute, hits in zip(lexicon.attributes, label_hits(named, truth, lexicon).T, strict=True):
        if accuracy := resampler.interval(mean(hits)):
            pairs = [(k[attribute], n.get(attribute)) for n, k in zip(named, truth, strict=True) if attribute in k]
            true, said, right = Counter(k for k, _ in pairs), Counter(n for _, n in pairs), Counter(pairs)
            # F1 = 2 TP / (2 TP + FP + FN), and the two counts of a class add up to that denominator
            f1 = [2 * right[name, name] / (true[name] + said[name]) for name in true]
            found[attribute] = LabelQuality(
                clips=len(pairs), accuracy=accuracy, macro_f1=fmean(f1), majority=max(true.values()) / len(pairs)
            )
    return found


def quality(
    clips: Clips, modes: Sequence[Mode], language: Language, lexicon: Lexicon, resampler: Resampler, *, bertscore: bool
) -> list[ModeQuality]:
    """One entry for each of `modes`; ConfigError: BERTScore is requested and not available."""
    described = [clip for clip in clips if clip.reference_texts]
    reference_texts = [clip.reference_texts for clip in described]
    truth = [clip.reference_labels for clip in clips]
    found = []
    for mode in modes:
        named, texts = [clip.labels[mode] for clip in clips], [clip.captions[mode] for clip in described]
        against = mode != "cloud" and "cloud" in modes
        found.append(
            ModeQuality(
                mode=mode,
                text=text_scores(texts, reference_texts, language, bertscore=bertscore) if described else None,
                labels=label_scores(named, truth, lexicon, resampler),
                label_mean=resampler.interval(mean(label_hits(named, truth, lexicon))),
                same_captions=float(_same(clips, mode).mean()) if against else None,
                same_labels=resampler.interval(mean(_like_cloud(clips, mode, lexicon))) if against else None,
            )
        )
    return found


def gaps(clips: Clips, lexicon: Lexicon, table: Mapping[Mode, Columns], resampler: Resampler) -> list[Gap]:
    """One gap a measure and mode between the two, in the order of `SUBJECTS`; none without edge-only and cloud-only.

    `table` holds what was measured of the same clips, by mode.
    """
    if not {"edge", "cloud"} <= table.keys():
        return []
    found = []
    for (basis, measure), of in _measures(clips, lexicon).items():
        edge, cloud = of("edge"), of("cloud")
        for mode in (mode for mode in table if mode not in ("edge", "cloud")):
            if gap := measure_gap(edge, of(mode), cloud, resampler, spent(mode, table)):
                found.append(Gap(mode=mode, basis=basis, measure=measure, **dict(gap)))
    return found


def _measures(clips: Clips, lexicon: Lexicon) -> dict[tuple[Basis, GapMeasure], Callable[[Mode], Values]]:
    """How good the captions of a mode are by each measure, 0 to 1, [clips] or [clips, attributes]; NaN: not known."""
    truth, texts = [clip.reference_labels for clip in clips], [clip.reference_texts for clip in clips]
    known = {attribute for labels in truth for attribute in labels}

    def right(mode: Mode) -> Values:
        return label_hits([clip.labels[mode] for clip in clips], truth, lexicon)

    found: dict[tuple[Basis, GapMeasure], Callable[[Mode], Values]] = {}
    if known != {"emotion"}:
        found["references", "labels"] = right
    if "emotion" in known:
        found["references", "emotion"] = lambda mode: right(mode)[:, list(lexicon.attributes).index("emotion")]
    found["references", "chrf"] = lambda mode: clip_chrf([clip.captions[mode] for clip in clips], texts) / 100
    found["cloud", "captions"] = lambda mode: _same(clips, mode)
    found["cloud", "labels"] = lambda mode: _like_cloud(clips, mode, lexicon)
    return found


def _same(clips: Clips, mode: Mode) -> Values:
    """[clips] 1 where the caption is the cloud's."""
    return np.array([float(clip.captions[mode] == clip.captions["cloud"]) for clip in clips])


def _like_cloud(clips: Clips, mode: Mode, lexicon: Lexicon) -> Values:
    """As `label_hits`, with the classes that the cloud's caption names for the truth."""
    truth = [{name: class_ for name, class_ in clip.labels["cloud"].items() if class_} for clip in clips]
    return label_hits([clip.labels[mode] for clip in clips], truth, lexicon)
