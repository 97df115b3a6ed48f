"""What speculative decoding should gain, and how figures are put together."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.bench.formulas import Reading, expected_speedup, median, tokens_per_round
from specdec_cli.bench.taken import Taken
from specdec_cli.compare.result import Spread


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.6, 0.95])
def test_tokens_of_a_round_are_the_closed_form_and_what_chance_gives(acceptance: float, k: int) -> None:
    found = tokens_per_round(acceptance, k)
    assert found == pytest.approx((1 - acceptance ** (k + 1)) / (1 - acceptance))
    passes = np.random.default_rng(0).random((40_000, k)) < acceptance
    drawn = np.cumprod(passes, axis=1).sum(axis=1) + 1
    assert found == pytest.approx(drawn.mean(), rel=0.02)


def test_all_accepted_is_a_whole_block_and_the_bonus() -> None:
    assert tokens_per_round(1.0, 4) == 5


def test_the_speed_up_pays_for_drafts_and_verification() -> None:
    assert expected_speedup(0.8, 5, 0.0) == pytest.approx(3.689, abs=1e-3)
    assert expected_speedup(0.8, 5, 0.1) == pytest.approx(3.68928 / 1.5, rel=1e-4)
    assert expected_speedup(0.8, 5, 0.1, verification_ratio=1.5) == pytest.approx(3.68928 / 2.0, rel=1e-4)
    assert expected_speedup(0.0, 3, 0.2) < 1, "drafts that never pass only cost"


def test_of_a_clip_only_the_steps_are_sped_up() -> None:
    assert Reading(0.0, 0.0, 50.0).of_a_clip(2.5) == pytest.approx(2.5)
    assert Reading(0.0, 50.0, 50.0).of_a_clip(1e9) == pytest.approx(2.0)
    assert Reading(25.0, 50.0, 50.0).of_a_clip(2.0) == pytest.approx(1.0)


def test_the_median_has_an_interval_unless_it_is_of_one() -> None:
    found = median([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found.value == 3
    assert found.low is not None
    assert found.high is not None
    assert 1 <= found.low <= 3 <= found.high <= 100
    assert median([7.0]) == Spread(value=7, low=None, high=None)


def test_overhead_is_what_the_forwards_do_not_explain() -> None:
    taken = Taken(ids=(5,) * 10, wall_ms=120.0, reading_ms=60.0, steps_ms=50.0)
    assert taken.overhead == pytest.approx(120 / 110 - 1)
    assert taken.decoding_overhead == pytest.approx(60 / 50 - 1)
    assert taken.overhead_ms == pytest.approx(10)
    assert (taken.tokens_per_s, taken.decoding_tokens_per_s) == (pytest.approx(1e4 / 120), pytest.approx(1e4 / 60))
    unknown = Taken(ids=(5,), wall_ms=2.0, reading_ms=1.0, steps_ms=None)
    assert (unknown.overhead, unknown.decoding_overhead, unknown.overhead_ms) == (None, None, None)
