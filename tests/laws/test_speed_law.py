"""All settings that are there for speed at once: none of them changes a token."""

from __future__ import annotations

import random
from typing import Any

from tests.laws.cases import Case, make_case
from tests.laws.checks import cloud_law, edge_law
from tests.laws.conftest import Run
from tests.laws.tolerance import numbers


def fast(number: int, **fixed: Any) -> Case:
    """A case whose blocks are as long as pays, whose cloud works beside the edge, which drafts ahead of it."""
    rng = random.Random(f"speed {number}")
    return make_case(
        number,
        k="auto",
        cost_ratio=rng.choice((None, 0.02, 0.15, 0.9)),
        draft_ahead="on",
        run_on=rng.choice((0, 0, 1, 3)),
        cloud_prefill=rng.choice(("lazy", "early", "overlap")),
        **fixed,
    )


def fast_edge(number: int) -> Case:
    """The edge alone, or with a gate that never escalates."""
    kind = {"mode": "edge"} if number % 2 else {"mode": "hybrid", "gate": "never"}
    return fast(number, loop_period=0, **kind)


def test_lossless_equals_generate(law: Run) -> None:
    law("speed, lossless", (fast(n, mode="lossless") for n in numbers(60_000)), cloud_law)


def test_an_edge_that_never_escalates_equals_generate(law: Run) -> None:
    law("speed, edge", map(fast_edge, numbers(70_000)), edge_law)
