"""Edge law: with no escalation, the tokens equal the edge model's own `generate()` with the same settings."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest
import torch

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.int4 import PackedLinear, pack, packable
from tests.laws.cases import Case, fast, generate, make_case
from tests.laws.checks import edge_law, parts
from tests.laws.reference import assert_rounds
from tests.laws.tolerance import numbers
from tests.support.models import DEVICE, as_audio_lm, tiny_clip, tiny_module

CLOSED: Final = {"mode": "hybrid", "gate": "never", "threshold": None}
ASLEEP: Final = {"mode": "hybrid", "gate": "entropy", "threshold": 0.1, "wake": 1e9, "defer": True}
WAYS: Final[tuple[Mapping[str, Any], ...]] = (CLOSED, ASLEEP, {"k": 1}, {"k": 8}, {"k": "auto"})


def edge_case(number: int) -> Case:
    """In edge mode the loop breaks out of repetitions, which `generate()` cannot; that has tests of its own."""
    return make_case(number, **{"mode": "edge", "loop_period": 0, **way(number)})


def way(number: int) -> Mapping[str, Any]:
    """What the case of a number is run with: as drawn, everything for speed at once, or one of `WAYS`."""
    return ({}, fast(number) | (CLOSED if number % 2 else {}), WAYS[number // 3 % len(WAYS)])[number % 3]


def test_an_edge_that_never_escalates_equals_generate(law):
    law("edge", map(edge_case, numbers(0, 0.75)), edge_law)


def sampled_case(number: int) -> Case:
    """A case of the edge alone that draws its tokens."""
    case = make_case(
        number, mode="edge", loop_period=0, temperature=(0.5, 1.0, 1.4)[number % 3], top_k=(None, 5, 40)[number % 3],
        top_p=(None, 0.9)[number % 2],
    )  # fmt: skip
    # A draw consumes one random number per vocabulary row, so both sides must have equally many.
    return replace(case, pair=Pair(case.edge, case.pair.cloud, case.edge.processor.logits_size))


def sampled_law(case: Case) -> str | None:
    """Every draw is the reference's, and the text is that of `generate()` with the same seed."""
    rounds, finished = case.remember().run()
    how = assert_rounds(case, rounds, finished)
    with torch.random.fork_rng():
        torch.manual_seed(case.config.decoding.seed)
        expected = generate(case.edge, case.edge_prompt, case.pair.vocab_size, case.config.decoding, case.sound)
    return how or parts(case, finished, expected)


@pytest.mark.skipif(DEVICE != "cpu", reason="generate() draws on the GPU, where a seed gives other numbers")
def test_sampled_edge_text_equals_generate_with_the_same_seed(law):
    law("edge, sampled", map(sampled_case, numbers(11_000, 0.25)), sampled_law)


@cache
def packed_edge(seed: int, eos: tuple[int, ...]) -> AudioLM:
    """An edge whose decoder and output layer have weights of four bits."""
    module = tiny_module(700 + seed, hidden=128, vocab_size=(320, 384)[seed % 2], layers=1 + seed % 2, scale=0.15)
    for name, linear in packable(module).items():
        module.set_submodule(name, PackedLinear(linear))
        part = module.get_submodule(name)
        part.weight, part.scales = pack(linear.weight.data)
    model = as_audio_lm(module, f"packed-{seed}")
    model.processor.eos_ids = eos
    return model


def packed_case(number: int) -> Case:
    """A case of the edge alone, or one that never escalates, with weights of four bits."""
    case = edge_case(number)
    edge = packed_edge(number % 3, tuple(case.edge.processor.eos_ids))
    clip = edge.processor.prompt(tiny_clip(number % 8, 0.3 + 0.25 * (number % 4)), "say how")
    return replace(case, pair=Pair.of(edge, case.pair.cloud), edge_prompt=clip)


@pytest.mark.skipif(DEVICE != "cpu", reason="specdec packs weights for CPUs alone")
def test_a_packed_edge_equals_generate(law):
    law("edge, packed", map(packed_case, numbers(12_000, 0.1)), edge_law)
