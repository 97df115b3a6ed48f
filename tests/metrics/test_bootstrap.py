"""Intervals: right on what is known, the same for the same seed, fast enough, and absent where they would mislead."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np
import pytest

from specdec_cli.metrics import Interval, bootstrap, gap_closed


def test_a_mean_has_the_interval_that_theory_gives_it() -> None:
    values = np.random.default_rng(0).normal(10, 2, 400)
    interval = bootstrap(lambda indices: float(values[indices].mean()), 400)
    error = values.std() / 20
    assert interval.value == values.mean()
    assert interval.low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)
    narrower = bootstrap(lambda indices: float(values[indices].mean()), 400, level=0.5)
    assert interval.low < narrower.low < narrower.high < interval.high


def test_intervals_of_a_share_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        hits = (rng.random(150) < 0.7).astype(float)
        held += bootstrap(lambda i, hits=hits: float(hits[i].mean()), 150, resamples=400, level=0.9).holds(0.7)
    assert 165 <= held <= 195


def test_the_seed_decides_and_the_pairs_stay_together() -> None:
    one = np.random.default_rng(0).normal(size=50)
    statistic = lambda indices: float((one[indices] - one[indices]).sum())  # noqa: E731
    assert bootstrap(statistic, 50) == Interval(0.0, 0.0, 0.0)
    mean = lambda indices: float(one[indices].mean())  # noqa: E731
    assert bootstrap(mean, 50, seed=4) == bootstrap(mean, 50, seed=4)
    assert bootstrap(mean, 50, seed=4) != bootstrap(mean, 50, seed=5)


def test_resamples_without_a_value_are_left_out() -> None:
    # a ratio that is not defined where the one clip with a denominator is not drawn
    interval = bootstrap(lambda indices: 1.0 if 0 in indices else float("nan"), 5)
    assert interval == Interval(1.0, 1.0, 1.0)
    nothing = bootstrap(lambda indices: 1.0 if len(set(indices)) == 40 else float("nan"), 40, resamples=20)
    assert nothing == Interval(1.0, 1.0, 1.0)


def test_many_clips_are_drawn_in_blocks_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=30)
    whole = bootstrap(lambda indices: float(values[indices].mean()), 30, resamples=100)
    monkeypatch.setattr(import_module("specdec_cli.metrics.bootstrap"), "_DRAWN_AT_ONCE", 65)
    assert bootstrap(lambda indices: float(values[indices].mean()), 30, resamples=100) == whole


def test_a_thousand_clips_take_less_than_a_second() -> None:
    hits = (np.random.default_rng(0).random((3, 1000)) < np.array([[0.5], [0.7], [0.8]])).astype(float)
    start = time.process_time()
    bootstrap(lambda indices: float(hits[0, indices].mean()), 1000)
    gap_closed(*hits)
    assert time.process_time() - start < 1


def test_the_gap_closed_by_hand() -> None:
    edge, cloud = np.zeros(40), np.ones(40)
    hybrid = np.array([1.0, 0.0, 1.0, 1.0] * 10)
    share = gap_closed(edge, hybrid, cloud)
    assert share is not None
    assert share.value == 0.75
    assert share.low < 0.75 < share.high
    assert gap_closed(edge, cloud, cloud) == Interval(1.0, 1.0, 1.0)
    assert gap_closed(edge, edge, cloud) == Interval(0.0, 0.0, 0.0)
    better = gap_closed(edge, 1.5 * cloud, cloud)
    assert better is not None
    assert better.value == 1.5


def test_clips_that_are_not_known_are_left_out_of_all_three() -> None:
    nan = float("nan")
    assert gap_closed([0, 0, nan, 9], [1, 1, 5, nan], [1, 1, 5, 0]) == Interval(1.0, 1.0, 1.0)
    assert gap_closed([nan], [1], [1]) is None
    assert gap_closed([], [], []) is None


def test_no_share_of_a_gap_that_is_not_there() -> None:
    rng = np.random.default_rng(0)
    edge, hybrid, cloud = (rng.random((3, 300)) < 0.7).astype(float)  # equally good: the gap is noise
    assert gap_closed(edge, hybrid, cloud) is None
    assert gap_closed(np.ones(50), np.ones(50), np.zeros(50)) is None
    assert gap_closed(np.ones(50), np.ones(50), np.ones(50)) is None


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="one figure per clip"):
        gap_closed([1, 2], [1], [1, 2])
    for n, resamples, level in ((0, 10, 0.9), (5, 0, 0.9), (5, 10, 1.0), (5, 10, 0.0)):
        with pytest.raises(ValueError, match="at least one"):
            bootstrap(lambda _: 0.0, n, resamples=resamples, level=level)
