"""Edge law: with no escalation, the tokens equal the edge model's own `generate()` with the same settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specdec_cli.decoding.build import Pair
from tests.laws.cases import CHUNK, Case, generate, make_case

CASES = 1000


def _mismatch(case: Case) -> str | None:
    rounds, finished = case.run()
    assert case.pair.edge is not None
    expected = generate(case.pair.edge, case.edge_inputs, case.pair.vocab_size, case.options)
    if list(finished.token_ids) != expected:
        return f"case {case.number}: {finished.token_ids} != {expected}"
    if any(round_.escalated for round_ in rounds):
        return f"case {case.number}: escalated"
    return None


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_edge_alone_equals_generate(chunk: int) -> None:
    # In edge mode a loop makes the engine break out of it, which generate() cannot; it has tests of its own.
    numbers = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    assert [m for n in numbers if (m := _mismatch(make_case(n, mode="edge", loop_period=0)))] == []


def test_hybrid_with_a_closed_gate_equals_generate() -> None:
    numbers = range(10_000, 10_100)
    assert [m for n in numbers if (m := _mismatch(make_case(n, mode="hybrid", gate="never", loop_period=0)))] == []


def test_sampled_edge_text_equals_generate_with_the_same_seed() -> None:
    for number in range(11_000, 11_100):
        case = make_case(
            number,
            mode="edge",
            loop_period=0,
            temperature=(0.5, 1.0, 1.4)[number % 3],
            top_k=(None, 5, 40)[number % 3],
            top_p=(None, 0.9)[number % 2],
        )
        # A draw consumes one random number per vocabulary row, so both sides must have equally many.
        assert case.pair.edge is not None
        case = replace(case, pair=Pair(case.pair.edge, None, case.pair.edge.vocab_size))
        _, finished = case.run()
        with torch.random.fork_rng():
            torch.manual_seed(case.options.seed)
            expected = generate(case.pair.edge, case.edge_inputs, case.pair.vocab_size, case.options)
        assert list(finished.token_ids) == expected, number
