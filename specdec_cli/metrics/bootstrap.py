"""How far a figure may be off because other clips could have been drawn: percentile bootstrap over clips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

RESAMPLES: Final = 2000
LEVEL: Final = 0.95
_DRAWN_AT_ONCE: Final = 2_000_000  # indices, 16 MB

Indices = npt.NDArray[np.intp]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the interval that holds it at the level asked for, in the figure's own unit."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` lies in the interval, ends included."""
        return self.low <= value <= self.high


def bootstrap(
    statistic: Callable[[Indices], float],
    n: int,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Interval:
    """Percentile interval of a statistic over clips (Efron and Tibshirani 1993, chapter 13).

    Pairing is kept by indexing everything that belongs to a clip with the same indices.

    Args:
        statistic: a figure of the clips with these indices [n]; a clip may come several times.
        n: number of clips.
        resamples: how often n clips are drawn with replacement.
        seed: of the draws; the same seed draws the same clips for every statistic.
        level: share of resamples inside the interval.

    Returns:
        The statistic of all clips and its interval. Resamples whose statistic is NaN are left out; where no other
        remains, both ends are the value itself.

    Raises:
        ValueError: no clips, no resamples, or a level outside (0, 1).
    """
    _require(n, resamples, level)
    value = float(statistic(np.arange(n)))
    drawn = np.array([statistic(indices) for block in _draws(n, resamples, seed) for indices in block], dtype=float)
    return _interval(value, drawn, level)


def gap_closed(
    edge: npt.ArrayLike,
    hybrid: npt.ArrayLike,
    cloud: npt.ArrayLike,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Interval | None:
    """Share of the quality gap between edge and cloud that the hybrid closes: (hybrid - edge) / (cloud - edge).

    0: no better than the edge; 1: as good as the cloud; above 1: better than the cloud. The figure is a ratio of
    means, paired by clip. A ratio has no useful interval where its denominator may be 0, so it is given only where
    the gap itself is measurable: where at least (1 + level) / 2 of the resamples (97.5%) have a gap above 0. The few
    others are left out of the interval.

    Args:
        edge, hybrid, cloud: one figure per clip [n], higher is better; clips with a NaN in any of them are left out.
        resamples, seed, level: as in `bootstrap`.

    Returns:
        The share and its interval, or None where the gap is not measurably above 0 or there are no clips.

    Raises:
        ValueError: the three differ in length, or as in `bootstrap`.
    """
    columns = [np.asarray(values, dtype=float).reshape(-1) for values in (edge, hybrid, cloud)]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"one figure per clip is wanted, not {[len(column) for column in columns]}")
    table = np.stack(columns, axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    if not len(table):
        return None
    _require(len(table), resamples, level)
    means = table.mean(axis=0)
    if not means[2] - means[0] > 0:
        return None
    drawn = np.concatenate([table[block].mean(axis=1) for block in _draws(len(table), resamples, seed)])
    gap = drawn[:, 2] - drawn[:, 0]
    usable = gap > 0
    if usable.mean() < (1 + level) / 2:
        return None
    shares = (drawn[usable, 1] - drawn[usable, 0]) / gap[usable]
    return _interval(float((means[1] - means[0]) / (means[2] - means[0])), shares, level)


def _require(n: int, resamples: int, level: float) -> None:
    if n < 1 or resamples < 1 or not 0 < level < 1:
        raise ValueError(
            f"at least one clip and one resample and a level in (0, 1) are wanted, not {n}, {resamples}, {level}"
        )


def _draws(n: int, resamples: int, seed: int) -> Iterator[Indices]:
    """Indices of clips drawn with replacement, [resamples, n] in blocks of bounded size."""
    generator = np.random.default_rng(seed)
    rows = max(1, _DRAWN_AT_ONCE // n)
    for start in range(0, resamples, rows):
        yield generator.integers(0, n, (min(rows, resamples - start), n), dtype=np.intp)


def _interval(value: float, drawn: Values, level: float) -> Interval:
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Interval(value, value, value)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
