"""With compiled models the laws hold as they do without.

Both sides of a law are compiled but for the last: `generate()` runs transformers' own code, which rounds differently,
and no two tokens of these cases are so nearly equal that it would show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specdec_cli.models.qwen_omni import QwenOmniThinker
from tests.compiler import COMPILER
from tests.laws.cases import Case, generate, make_case

pytestmark = [COMPILER, pytest.mark.slow]
CASES = 120


class _Compiled:
    """Cases whose models are compiled; the tiny ones all fit one compiled code."""

    def __init__(self) -> None:
        self.models: dict[int, QwenOmniThinker] = {}

    def case(self, number: int, **fixed: Any) -> Case:
        case = make_case(number, **fixed)
        for model in (case.pair.edge, case.pair.cloud):
            assert isinstance(model, QwenOmniThinker)
            if id(model) not in self.models:
                self.models[id(model)] = model
                model.compile("default")
            assert model.compiled == "default"
        return case

    def text(self, number: int, **fixed: Any) -> tuple[int, ...]:
        return self.case(number, **fixed).run()[1].token_ids


@pytest.fixture(scope="module")
def compiled() -> Iterator[_Compiled]:
    made = _Compiled()
    yield made
    for model in made.models.values():
        model.compile("off")


def test_lossless_is_what_the_cloud_says_alone(compiled: _Compiled) -> None:
    numbers = range(60_000, 60_000 + CASES)
    assert [
        number for number in numbers if compiled.text(number, mode="lossless") != compiled.text(number, mode="cloud")
    ] == []


def test_a_closed_gate_is_what_the_edge_says_alone(compiled: _Compiled) -> None:
    def differs(number: int) -> bool:
        hybrid = compiled.text(number, mode="hybrid", gate="never", loop_period=0)
        return hybrid != compiled.text(number, mode="edge", loop_period=0)

    assert [number for number in range(61_000, 61_000 + CASES) if differs(number)] == []


def test_k_changes_the_speed_and_never_the_text(compiled: _Compiled) -> None:
    for number in range(62_000, 62_020):
        for mode in ("lossless", "edge", "cloud"):
            period = {"loop_period": 0} if mode == "edge" else {}
            texts = {compiled.text(number, mode=mode, k=k, **period) for k in range(1, 9)}
            assert len(texts) == 1, (number, mode)


def test_lossless_equals_generate(compiled: _Compiled) -> None:
    for number in range(63_000, 63_000 + CASES):
        case = compiled.case(number, mode="lossless")
        assert case.pair.cloud is not None
        expected = generate(case.pair.cloud, case.cloud_inputs, case.pair.vocab_size, case.options)
        assert list(case.run()[1].token_ids) == expected, number
