"""Edge law: with no escalation, the tokens equal the edge model's own `generate()` with the same settings."""

from __future__ import annotations

from dataclasses import replace

import torch

from specdec_cli.decoding.build import Pair
from tests.laws.cases import Case, generate, make_case
from tests.laws.checks import edge_law, parts
from tests.laws.conftest import Run
from tests.laws.reference import assert_rounds
from tests.laws.tolerance import numbers

# In edge mode the loop breaks out of repetitions, which generate() cannot; that has tests of its own.


def test_edge_alone_equals_generate(law: Run) -> None:
    law("edge", (make_case(n, mode="edge", loop_period=0) for n in numbers(0)), edge_law)


def test_hybrid_with_a_closed_gate_equals_generate(law: Run) -> None:
    cases = (make_case(n, mode="hybrid", gate="never", loop_period=0) for n in numbers(10_000, 0.5))
    law("edge, hybrid that never escalates", cases, edge_law)


def sampled_case(number: int) -> Case:
    """A case of the edge alone that draws its tokens."""
    case = make_case(
        number,
        mode="edge",
        loop_period=0,
        temperature=(0.5, 1.0, 1.4)[number % 3],
        top_k=(None, 5, 40)[number % 3],
        top_p=(None, 0.9)[number % 2],
    )
    # A draw consumes one random number per vocabulary row, so both sides must have equally many.
    return replace(case, pair=Pair(case.edge, case.pair.cloud, case.edge.processor.rows))


def sampled_law(case: Case) -> str | None:
    """Every draw is the reference's, and the text is that of `generate()` with the same seed."""
    rounds, finished = case.run()
    how = assert_rounds(case, rounds, finished)
    with torch.random.fork_rng():
        torch.manual_seed(case.config.decoding.seed)
        expected = generate(case.edge, case.edge_prompt, case.pair.vocab_size, case.config.decoding)
    return how or parts(case, finished, expected)


def test_sampled_edge_text_equals_generate_with_the_same_seed(law: Run) -> None:
    law("edge, sampled", (sampled_case(n) for n in numbers(11_000, 0.5)), sampled_law)
