"""Costs, chance and the oracle, against figures by hand and against draws."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.evaluate.bootstrap import Resampler, Values, difference, mean
from specdec_cli.evaluate.frontier import Spending, constant, measure_costs, oracle, oracle_curves
from specdec_cli.evaluate.gap import measure_gap, share_of_gap

CLIPS = 200
ONCE = np.ones(CLIPS)


def drawn(seed: int) -> tuple[Values, Values]:
    """Right or wrong of edge and cloud in three classes, some unknown."""
    rng = np.random.default_rng(seed)
    edge = (rng.random((CLIPS, 3)) < 0.5).astype(float)
    cloud = (rng.random((CLIPS, 3)) < 0.75).astype(float)
    edge[rng.random((CLIPS, 3)) < 0.1] = np.nan
    return edge, cloud


def best_of(edge: Values, cloud: Values) -> object:
    return oracle(edge, cloud, np.full(CLIPS, 10.0), np.full(CLIPS, 50.0), 5.0, np.full(CLIPS, 100.0))


def test_the_oracle_takes_what_is_worth_most_first() -> None:
    edge = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    cloud = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    best = oracle(edge, cloud, np.full(4, 4.0), np.full(4, 40.0), 10.0, np.full(4, 100.0))
    # the first clip gains two classes of eight, the second one; nothing else is worth a call
    for share, gained in ((0.0, 0.0), (0.125, 1 / 8), (0.25, 2 / 8), (0.5, 3 / 8), (1.0, 3 / 8)):
        assert float(best.gain("clips", constant(share))(np.ones(4))) == pytest.approx(gained)
    assert float(best.costs["blocks"].share(np.ones(4))) == pytest.approx(3 / 16)
    assert float(best.costs["time"].share(np.ones(4))) == pytest.approx((50 + 40) / 400)
    assert float(best.gain("time", constant(50 / 400))(np.ones(4))) == pytest.approx(2 / 8)


def test_clips_at_random_close_what_they_spend_and_the_oracle_is_above_every_choice() -> None:
    edge, cloud = drawn(0)
    best = best_of(edge, cloud)
    gap = difference(mean(np.where(np.isfinite(edge), cloud, np.nan)), mean(edge))
    rng = np.random.default_rng(1)
    closed = []
    for _ in range(300):
        woken = rng.permutation(CLIPS) < 0.3 * CLIPS
        found = measure_gap(edge, np.where(woken[:, None], cloud, edge), cloud, Resampler(CLIPS, resamples=2))
        closed.append(found.gain.value / found.gap.value)
    assert np.mean(closed) == pytest.approx(0.3, abs=0.02)
    reached = share_of_gap(best.gain("clips", constant(0.3)), gap)
    assert float(reached(ONCE)) > max(closed)


def test_a_hybrid_is_measured_against_chance_in_pairs() -> None:
    edge, cloud = drawn(2)
    woken = np.arange(CLIPS) < 80
    hybrid = np.where(woken[:, None] & (cloud > edge), cloud, edge)  # an oracle, on the first 80 clips
    spent = {"clips": Spending(woken.astype(float), ONCE), "time": Spending(ONCE * np.nan, ONCE)}
    (at,) = measure_costs((edge, hybrid, cloud), spent, best_of(edge, cloud), Resampler(CLIPS), measurable=True)
    assert (at.cost, at.spent.value) == ("clips", 0.4)
    assert at.above_random.low > 0
    closed = measure_gap(edge, hybrid, cloud, Resampler(CLIPS))
    assert at.above_random.value == pytest.approx(closed.closed.value - 0.4)
    assert at.oracle.value > closed.closed.value


def test_a_cost_that_was_not_measured_has_no_oracle() -> None:
    edge, cloud = drawn(4)
    unknown = ONCE * np.nan
    best = oracle(edge, cloud, ONCE, unknown, None, unknown)
    assert np.isnan(best.gain("time", constant(0.5))(ONCE))
    assert [curve.cost for curve in oracle_curves(best)] == ["blocks", "clips"]


def test_curves_rise_to_all_that_the_oracle_can_do() -> None:
    edge, cloud = drawn(3)
    best = best_of(edge, cloud)
    for curve in oracle_curves(best):
        shares, closed = np.array(curve.points).T
        assert (np.diff(closed) > -1e-12).all()
        assert (np.diff(np.diff(closed)) < 1e-9).all()  # the best first
        assert (shares[0], closed[0]) == (0.0, 0.0)
        assert closed[-1] > 1
