"""How good each mode's captions are, against references and the cloud's captions, and how much of the gap it closes.

A caption that names no class of an attribute is wrong, and not left out. A clip whose true class is not known
is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from specdec_cli.evaluate.costs import Columns, spent
from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.evaluate.result import (
    Basis,
    ClipComparison,
    Confusion,
    Gap,
    GapMeasure,
    GroupQuality,
    LabelQuality,
    ModeQuality,
)
from specdec_cli.evaluate.text_scores import clip_chrf, text_scores
from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language
from specdec_cli.stats import Resampler, Statistic, Values, average, mean
from specdec_cli.types import Mode

Clips = Sequence[ClipComparison]
Mask = npt.NDArray[np.bool_]
Scores = dict[tuple[Basis, GapMeasure], dict[Mode, Values]]
"""Measure -> mode -> how good its captions are, 0 to 1, [clips] or [clips, attributes]; NaN where it is not known."""
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
        accuracy, uar = resampler.interval(mean(hits)), resampler.interval(recalls(hits, truth, attribute))
        if accuracy is not None and uar is not None:  # where one is known, so is the other
            pairs = [(k[attribute], n.get(attribute)) for n, k in zip(named, truth, strict=True) if attribute in k]
            found[attribute] = LabelQuality(
                clips=len(pairs),
                accuracy=accuracy,
                uar=uar,
                majority=max(Counter(known for known, _ in pairs).values()) / len(pairs),
                confusions=[Confusion(true=k, named=n, clips=clips) for (k, n), clips in Counter(pairs).most_common()],
            )
    return found


def recalls(hits: Values, truth: Truth, attribute: str) -> Statistic:
    """Unweighted average recall (Schuller et al. 2009): the mean over true classes of the share named right.

    `hits` is one column of `label_hits` [clips]. A class that a resample lacks is left out of its mean.
    """
    known = [labels.get(attribute) for labels in truth]
    classes = dict.fromkeys(class_ for class_ in known if class_ is not None)
    pairs = zip(hits, known, strict=True)
    return mean(np.array([[hit if own == class_ else np.nan for class_ in classes] for hit, own in pairs]))


def scores(clips: Clips, modes: Sequence[Mode], lexicon: Lexicon, *, described: bool) -> Scores:
    """Measure -> the quality of each mode, in the order of `MEASURES`; emotion by itself is not `heard`.

    `described`: whether the references' texts are descriptions.
    """
    truth, texts = [clip.reference_labels for clip in clips], [clip.reference_texts for clip in clips]
    captions = {mode: [clip.captions[mode] for clip in clips] for mode in modes}
    named = {mode: [clip.labels[mode] for clip in clips] for mode in modes}
    right = {mode: label_hits(own, truth, lexicon) for mode, own in named.items()}
    known = {attribute for labels in truth for attribute in labels}
    heard, measured = heard_and_measured(lexicon)
    names, found = np.array([*lexicon.attributes]), Scores()
    if not known.isdisjoint(set(names[heard]) - {"emotion"}):
        found["references", "heard"] = {mode: hits[:, heard] for mode, hits in right.items()}
    if "emotion" in known:
        found["references", "emotion"] = {mode: hits[:, names == "emotion"] for mode, hits in right.items()}
    if not known.isdisjoint(names[measured]):
        found["references", "measured"] = {mode: hits[:, measured] for mode, hits in right.items()}
    if described:
        found["references", "chrf"] = {mode: clip_chrf(own, texts) / 100 for mode, own in captions.items()}
    if "cloud" in modes:
        clouds = [{name: class_ for name, class_ in labels.items() if class_} for labels in named["cloud"]]
        same = {mode: [a == b for a, b in zip(own, captions["cloud"], strict=True)] for mode, own in captions.items()}
        found["cloud", "captions"] = {mode: np.array(own, dtype=np.float64) for mode, own in same.items()}
        found["cloud", "labels"] = {mode: label_hits(own, clouds, lexicon) for mode, own in named.items()}
    return found


def heard_and_measured(lexicon: Lexicon) -> tuple[Mask, Mask]:
    """Which attributes only a listener can name, and which an instrument measures; both [attributes of the lexicon]."""
    measured = np.array([name in lexicon.measured for name in lexicon.attributes])
    return ~measured, measured


def quality(
    clips: Clips,
    mode: Mode,
    by: Scores,
    language: Language,
    lexicon: Lexicon,
    resampler: Resampler,
) -> ModeQuality:
    """How good a mode's captions are."""
    described = [clip for clip in clips if clip.reference_texts] if ("references", "chrf") in by else []
    captions, texts = [clip.captions[mode] for clip in described], [clip.reference_texts for clip in described]
    named, truth = [clip.labels[mode] for clip in clips], [clip.reference_labels for clip in clips]
    hits, (heard, measured) = label_hits(named, truth, lexicon), heard_and_measured(lexicon)
    columns = [(name, own) for name, own, by_ear in zip(lexicon.attributes, hits.T, heard, strict=True) if by_ear]
    against = mode != "cloud" and ("cloud", "captions") in by
    return ModeQuality(
        mode=mode,
        text=text_scores(captions, texts, language) if described else None,
        labels=label_scores(named, truth, lexicon, resampler),
        heard_mean=resampler.interval(mean(hits[:, heard])),
        measured_mean=resampler.interval(mean(hits[:, measured])),
        heard_uar=resampler.interval(average([recalls(own, truth, name) for name, own in columns])),
        same_captions=float(by["cloud", "captions"][mode].mean()) if against else None,
        same_labels=resampler.interval(mean(by["cloud", "labels"][mode])) if against else None,
    )


def by_group(
    clips: Clips,
    groups: Sequence[str | None],
    modes: Sequence[Mode],
    lexicon: Lexicon,
    speakers: Sequence[str | None],
    seed: int,
) -> list[GroupQuality]:
    """How good each mode's captions are on the clips of each group; `groups` and `speakers` are of each clip."""
    heard, measured = heard_and_measured(lexicon)
    emotion, found = np.array([*lexicon.attributes]) == "emotion", list[GroupQuality]()
    for group, number in Counter(groups).most_common():
        own = [at for at, of in enumerate(groups) if of == group]
        resampler = Resampler(number, seed=seed, speakers=[speakers[at] for at in own])
        truth = [clips[at].reference_labels for at in own]
        for mode in modes if any(truth) else ():
            hits = label_hits([clips[at].labels[mode] for at in own], truth, lexicon)
            of_heard, of_emotion, of_measured = (
                resampler.interval(mean(hits[:, columns])) for columns in (heard, emotion, measured)
            )
            found.append(
                GroupQuality(
                    group=group,
                    clips=number,
                    mode=mode,
                    heard_mean=of_heard,
                    emotion=of_emotion,
                    measured_mean=of_measured,
                )
            )
    return found


def gaps(by: Scores, table: Mapping[Mode, Columns], resampler: Resampler) -> list[Gap]:
    """The gap by each measure and mode; none without edge-only and cloud-only.

    `table`: the measured figures of the same clips.
    """
    found: list[Gap] = []
    for (basis, measure), of in by.items() if {"edge", "cloud"} <= table.keys() else ():
        for mode in (mode for mode in table if mode not in ("edge", "cloud")):
            if gap := measure_gap(of["edge"], of[mode], of["cloud"], resampler, spent(mode, table)):
                found.append(Gap(mode=mode, basis=basis, measure=measure, **dict(gap)))
    return found
