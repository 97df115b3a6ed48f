"""Bootstrap intervals of many statistics over the same resampled clips.

Percentile bootstrap (Efron 1979). All statistics see the same resamples, so two modes stay paired clip by clip, and
each is computed over all resamples at once: a comparison has a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from specdec_cli.compare.result import Spread

Values = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.intp]
Statistic = Callable[[Chosen], Values]
"""From indices of clips [..., clips] to a figure for each row [...]; NaN where it does not exist."""


class Resampler:
    """Draws clips with replacement, the same way for every statistic.

    Args:
        clips: how many there are, at least one.
        resamples: how often to draw.
        level: share of the resampled figures within an interval.
        seed: of the drawing.
    """

    def __init__(self, clips: int, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> None:
        self.clips = clips
        self.resamples = resamples
        self.level = level
        self.seed = seed

    def value(self, statistic: Statistic) -> float | None:
        """The figure over all clips; None where it does not exist."""
        value = float(statistic(np.arange(self.clips)))
        return value if np.isfinite(value) else None

    def interval(self, statistic: Statistic) -> Spread | None:
        """The figure and its interval; None where it does not exist.

        Resamples in which the figure does not exist (a rate whose denominator was not drawn) are left out.
        """
        value = self.value(statistic)
        if value is None:
            return None
        if self.clips < 2:
            return Spread(value=value, low=None, high=None)
        drawn = statistic(self._chosen)
        tail = 50 * (1 - self.level)
        low, high = np.percentile(drawn[np.isfinite(drawn)], [tail, 100 - tail])
        return Spread(value=value, low=float(low), high=float(high))

    @cached_property
    def _chosen(self) -> Chosen:
        """Indices [resamples, clips]."""
        return np.random.default_rng(self.seed).integers(self.clips, size=(self.resamples, self.clips))


def total(values: Values) -> Statistic:
    """The sum over clips."""
    return lambda chosen: values[chosen].sum(axis=-1)


def mean(values: Values) -> Statistic:
    """The mean over the clips that have a value; NaN values are clips without one."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0), known.astype(np.float64))


def middle(values: Values) -> Statistic:
    """The median over clips."""
    return lambda chosen: np.asarray(np.median(values[chosen], axis=-1))


def ratio(part: Values, whole: Values) -> Statistic:
    """The quotient of two sums over clips."""
    return quotient(total(part), total(whole))


def quotient(one: Statistic, other: Statistic) -> Statistic:
    """One statistic in units of another; NaN where that is 0."""

    def statistic(chosen: Chosen) -> Values:
        divisor = np.asarray(other(chosen))
        return np.divide(one(chosen), divisor, out=np.full_like(divisor, np.nan), where=divisor != 0)

    return statistic


def difference(one: Statistic, other: Statistic) -> Statistic:
    """One statistic minus another."""
    return lambda chosen: one(chosen) - other(chosen)


def average(parts: list[Statistic]) -> Statistic:
    """The mean of several statistics; those that do not exist for a draw are left out of it."""

    def statistic(chosen: Chosen) -> Values:
        stacked = np.stack([np.asarray(part(chosen)) for part in parts])
        known = np.isfinite(stacked)
        count = known.sum(axis=0).astype(np.float64)
        sums = np.where(known, stacked, 0.0).sum(axis=0)
        return np.asarray(np.divide(sums, count, out=np.full_like(sums, np.nan), where=count > 0))

    return statistic
