"""How many tokens the cloud is asked to run on for."""

from __future__ import annotations

import random

from specdec_cli.decoding.run_on import MOST, RunOn


def measured(edge_ms: float, cloud_ms: float) -> RunOn:
    """What `auto` knows after one exchange."""
    run_on = RunOn("auto")
    run_on.drafted(5, 5 * edge_ms)
    run_on.verified(3, 4 * cloud_ms)
    return run_on


def test_a_number_is_a_number_as_long_as_it_fits() -> None:
    assert RunOn(3).tokens(committed=0, of_cloud=0, room=20) == 3
    assert RunOn(3).tokens(committed=50, of_cloud=50, room=2) == 2
    assert RunOn(3).tokens(committed=50, of_cloud=50, room=-1) == 0


def test_auto_asks_for_nothing_before_it_has_measured() -> None:
    assert RunOn("auto").tokens(committed=40, of_cloud=0, room=40) == 0


def test_auto_asks_for_nothing_where_the_edge_is_as_fast() -> None:
    assert measured(4.0, 4.0).tokens(committed=40, of_cloud=0, room=40) == 0
    assert measured(4.0, 9.0).tokens(committed=40, of_cloud=0, room=40) == 0
    assert measured(48.0, 4.0).tokens(committed=40, of_cloud=0, room=40) == MOST


def test_medians_forget_a_single_slow_step() -> None:
    run_on = measured(48.0, 4.0)
    for _ in range(4):
        run_on.verified(0, 4.0)
    run_on.verified(0, 900.0)
    assert run_on.tokens(committed=40, of_cloud=0, room=40) == MOST


def test_auto_leaves_the_cloud_at_most_half_of_the_text() -> None:
    rng = random.Random(0)
    asked = 0
    for _ in range(200):
        run_on, committed, of_cloud = measured(48.0, 4.0), 0, 0
        while committed < 128:
            kept = rng.randint(1, 5)
            committed += kept
            if rng.random() < 0.5:
                more = run_on.tokens(committed, of_cloud, 128 - committed)
                committed, of_cloud = committed + 1 + more, of_cloud + 1 + more
                asked += more
                assert not more or 2 * of_cloud <= committed
    assert asked > 1000
