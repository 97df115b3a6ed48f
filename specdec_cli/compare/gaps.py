"""How much of the distance from edge to cloud a mode covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from specdec_cli.compare.quality import Judged
from specdec_cli.compare.result import Basis, Gap, GapMeasure
from specdec_cli.compare.spread import Chosen, Resampler, Statistic, Values, average, difference, mean, quotient
from specdec_cli.metrics import clip_chrf
from specdec_cli.types import Mode

_ENDS: Final[tuple[Mode, ...]] = ("edge", "cloud")


@dataclass(frozen=True, slots=True)
class _Measure:
    """One way to say how good captions are.

    Attributes:
        clips: how many can be judged.
        of: mode -> the figure, 0 to 1.
    """

    basis: Basis
    measure: GapMeasure
    clips: int
    of: Mapping[Mode, Statistic]


def gaps(judged: Judged, resampler: Resampler) -> list[Gap]:
    """One entry a mode between the two and a measure; none where edge-only or cloud-only was not run."""
    modes = judged.pairing.modes
    if not set(_ENDS) <= set(modes):
        return []
    measures = [*_by_references(judged), *_by_cloud(judged)]
    between = [mode for mode in modes if mode not in _ENDS]
    return [_gap(mode, measure, resampler) for measure in measures for mode in between]


def _gap(mode: Mode, measure: _Measure, resampler: Resampler) -> Gap:
    edge, own, cloud = measure.of["edge"], measure.of[mode], measure.of["cloud"]
    gap, gain = difference(cloud, edge), difference(own, edge)
    width, gained = resampler.interval(gap), resampler.interval(gain)
    assert width is not None  # a measure is only there if it exists for all modes
    assert gained is not None
    measurable = width.low is not None and width.low > 0
    return Gap(
        mode=mode,
        basis=measure.basis,
        measure=measure.measure,
        clips=measure.clips,
        edge=_value(edge, resampler),
        value=_value(own, resampler),
        cloud=_value(cloud, resampler),
        gap=width,
        gain=gained,
        closed=resampler.interval(quotient(gain, _above_zero(gap))) if measurable else None,
    )


def _by_references(judged: Judged) -> Iterator[_Measure]:
    modes = judged.pairing.modes
    right = {mode: judged.right(mode) for mode in modes}
    known = right["cloud"]
    if len(known) > 1:
        judgeable = int(np.isfinite(np.stack(list(known.values()))).any(axis=0).sum())
        yield _Measure("references", "labels", judgeable, {mode: _mean_of(right[mode]) for mode in modes})
    for attribute, values in known.items():
        if attribute == "emotion" or len(known) == 1:
            measure: GapMeasure = "emotion" if attribute == "emotion" else "labels"
            clips = int(np.isfinite(values).sum())
            yield _Measure("references", measure, clips, {mode: mean(right[mode][attribute]) for mode in modes})
    if judged.texts:
        yield _Measure("references", "chrf", len(judged.texts), {mode: _chrf(judged, mode) for mode in modes})


def _by_cloud(judged: Judged) -> Iterator[_Measure]:
    """Nearness to the cloud's captions, by which the cloud itself has 1."""
    modes, clips = judged.pairing.modes, len(judged.pairing.clips)
    cloud = judged.captions["cloud"]
    same = {
        mode: mean(np.array([float(one == other) for one, other in zip(judged.captions[mode], cloud, strict=True)]))
        for mode in modes
    }
    yield _Measure("cloud", "captions", clips, same)
    like = {mode: judged.like_cloud(mode) for mode in modes}
    if any(name for said in judged.said["cloud"] for name in said.values()):
        yield _Measure("cloud", "labels", clips, {mode: _mean_of(like[mode]) for mode in modes})
    wanted = [[text] for text in cloud]
    near = {mode: mean(clip_chrf(judged.captions[mode], wanted) / 100) for mode in modes}
    yield _Measure("cloud", "chrf", clips, near)


def _mean_of(hits: Mapping[str, Values]) -> Statistic:
    return average([mean(values) for values in hits.values()])


def _chrf(judged: Judged, mode: Mode) -> Statistic:
    scores = np.full(len(judged.pairing.clips), np.nan)
    captions = [judged.captions[mode][index] for index in judged.texts]
    scores[list(judged.texts)] = clip_chrf(captions, list(judged.texts.values())) / 100
    return mean(scores)


def _above_zero(statistic: Statistic) -> Statistic:
    """The statistic, and 0 for the draws in which it is below: a share of a gap that is none means nothing."""

    def clipped(chosen: Chosen) -> Values:
        return np.maximum(statistic(chosen), 0.0)

    return clipped


def _value(statistic: Statistic, resampler: Resampler) -> float:
    value = resampler.value(statistic)
    assert value is not None
    return value
