"""All options that are there for speed at once, at the counts of the edge and cloud laws: none of them changes a token.

Compiled models have a law test of their own: they take seconds each to make.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.laws.cases import CHUNK, Case, generate, make_case

CASES = 1000


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


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_lossless_equals_generate(chunk: int) -> None:
    for number in range(60_000 + chunk * CHUNK, 60_000 + (chunk + 1) * CHUNK):
        case = fast(number, mode="lossless")
        _, finished = case.run()
        assert case.pair.loaded_cloud is not None
        expected = generate(case.pair.loaded_cloud, case.cloud_inputs, case.pair.vocab_size, case.options)
        assert list(finished.token_ids) == expected, number


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_an_edge_that_never_asks_equals_generate(chunk: int) -> None:
    for number in range(70_000 + chunk * CHUNK, 70_000 + (chunk + 1) * CHUNK):
        kind = {"mode": "edge"} if number % 2 else {"mode": "hybrid", "gate": "never"}
        case = fast(number, loop_period=0, **kind)
        rounds, finished = case.run()
        assert not any(round_.escalated for round_ in rounds)
        assert case.pair.edge is not None
        expected = generate(case.pair.edge, case.edge_inputs, case.pair.vocab_size, case.options)
        assert list(finished.token_ids) == expected, number
