"""What speculative decoding should gain, and how figures are put together."""

from __future__ import annotations

import numpy as np
import pytest

from specdec_cli.bench.formulas import expected_speedup, median, speedup_of_a_clip, tokens_per_round
from specdec_cli.bench.timing import Timing
from specdec_cli.metrics.bootstrap import Interval


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
    def left(speedup: float, edge: float, cloud: float) -> float:
        return speedup_of_a_clip(speedup, edge_prefill=edge, cloud_prefill=cloud, cloud_steps=50.0)

    assert left(2.5, 0.0, 0.0) == pytest.approx(2.5)
    assert left(1e9, 0.0, 50.0) == pytest.approx(2.0)
    assert left(2.0, 25.0, 50.0) == pytest.approx(1.0)


def test_the_median_has_an_interval_unless_it_is_of_one() -> None:
    found = median([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found.value == 3
    assert found.low is not None
    assert found.high is not None
    assert 1 <= found.low <= 3 <= found.high <= 100
    assert median([7.0]) == Interval(7.0, None, None)


def test_overhead_is_what_the_forwards_do_not_explain() -> None:
    timing = Timing(ids=(5,) * 10, wall_ms=120.0, prefill_ms=60.0, steps_ms=50.0)
    assert timing.overhead == pytest.approx(120 / 110 - 1)
    assert (timing.tokens_per_s, timing.decoding_tokens_per_s) == (pytest.approx(1e4 / 120), pytest.approx(1e4 / 60))
    assert Timing(ids=(5,), wall_ms=2.0, prefill_ms=1.0, steps_ms=None).overhead is None
