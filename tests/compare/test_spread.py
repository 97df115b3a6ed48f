"""Intervals against those of the metrics package, which computes them one draw at a time."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.compare.spread import Resampler, average, difference, mean, middle, quotient, ratio, total
from specdec_cli.metrics import bootstrap


@pytest.mark.parametrize("seed", [0, 7])
def test_intervals_are_those_of_one_draw_at_a_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    part, whole = rng.uniform(1, 5, 40), rng.uniform(5, 9, 40)
    resampler = Resampler(40, resamples=500, seed=seed)
    for statistic in (total(part), middle(part), ratio(part, whole), quotient(middle(part), middle(whole))):
        found = resampler.interval(statistic)
        expected = bootstrap(lambda chosen, s=statistic: float(s(chosen)), 40, resamples=500, seed=seed)
        assert found is not None
        assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        one, other = rng.lognormal(0.5, 0.3, 60), rng.lognormal(0, 0.3, 60)
        found = Resampler(60, resamples=300, seed=trial).interval(ratio(one, other))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= np.exp(0.5) <= found.high
    assert 0.90 <= covered / 300 <= 0.985


def test_what_does_not_exist_is_no_figure() -> None:
    resampler = Resampler(3, resamples=50)
    nothing = np.zeros(3)
    assert resampler.interval(ratio(nothing, nothing)) is None
    assert resampler.interval(mean(np.full(3, np.nan))) is None
    assert resampler.interval(total(np.array([1.0, np.nan, 2.0]))) is None


def test_draws_without_a_denominator_are_left_out() -> None:
    part, whole = np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, 0.0, 0.0, 4.0])
    found = Resampler(4, resamples=200).interval(ratio(part, whole))
    assert found is not None
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_mean_is_over_the_clips_that_have_a_value() -> None:
    values = np.array([1.0, np.nan, 0.0, 1.0])
    everything = np.arange(4)
    assert float(mean(values)(everything)) == pytest.approx(2 / 3)
    assert float(average([mean(values), mean(np.full(4, np.nan)), mean(np.zeros(4))])(everything)) == pytest.approx(
        1 / 3
    )
    assert float(difference(mean(values), total(np.ones(4)))(everything)) == pytest.approx(2 / 3 - 4)


def test_a_single_clip_has_no_spread() -> None:
    found = Resampler(1).interval(total(np.array([3.0])))
    assert found is not None
    assert (found.value, found.low, found.high) == (3.0, None, None)
