"""How much of the distance from edge to cloud a mode covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from specdec_cli.compare.quality import Judged
from specdec_cli.compare.result import Basis, Gap, GapMeasure
from specdec_cli.metrics import Resampler, Values, attribute_table, clip_chrf, measure_gap
from specdec_cli.types import Mode


def gaps(judged: Judged, resampler: Resampler) -> list[Gap]:
    """One entry a mode between the two and a measure; none where edge-only or cloud-only was not run."""
    modes = judged.pairing.modes
    if not {"edge", "cloud"} <= set(modes):
        return []
    return [
        Gap(mode=mode, basis=basis, measure=measure, **dict(found))
        for basis, measure, of in (*_by_references(judged), *_by_cloud(judged))
        for mode in modes
        if mode not in ("edge", "cloud") and (found := measure_gap(of["edge"], of[mode], of["cloud"], resampler))
    ]


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
