"""Cloud law: with every block escalated under greedy acceptance, the tokens equal the cloud's own `generate()`."""

from __future__ import annotations

import pytest

from tests.laws.cases import CHUNK, Case, generate, make_case

CASES = 1000


def _mismatch(case: Case) -> str | None:
    rounds, finished = case.run()
    assert case.pair.cloud is not None
    expected = generate(case.pair.cloud, case.cloud_inputs, case.pair.vocab_size, case.options)
    if list(finished.token_ids) != expected:
        return f"case {case.number}: {finished.token_ids} != {expected}"
    if case.options.mode != "cloud" and not all(round_.escalated for round_ in rounds):
        return f"case {case.number}: a block was not escalated"
    return None


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_lossless_equals_generate(chunk: int) -> None:
    numbers = range(20_000 + chunk * CHUNK, 20_000 + (chunk + 1) * CHUNK)
    assert [m for n in numbers if (m := _mismatch(make_case(n, mode="lossless")))] == []


def test_cloud_mode_equals_generate() -> None:
    assert [m for n in range(30_000, 30_100) if (m := _mismatch(make_case(n, mode="cloud")))] == []


def test_hybrid_that_always_escalates_equals_generate() -> None:
    numbers = range(31_000, 31_100)
    assert [m for n in numbers if (m := _mismatch(make_case(n, mode="hybrid", gate="always", loop_period=0)))] == []


def test_k_changes_the_speed_and_never_the_text() -> None:
    for number in range(32_000, 32_020):
        for mode in ("lossless", "edge", "cloud"):
            period = {"loop_period": 0} if mode == "edge" else {}
            texts = {make_case(number, mode=mode, k=k, **period).run()[1].token_ids for k in range(1, 9)}
            assert len(texts) == 1, (number, mode)


@pytest.mark.parametrize("cost", [0.02, 0.15, 0.5, 0.9, 3.0])
def test_blocks_that_pay_do_not_change_the_text(cost: float) -> None:
    lengths = set()
    for number in range(34_000, 34_060):
        case = make_case(number, mode="lossless", k="auto", cost_ratio=cost)
        assert _mismatch(case) is None
        lengths |= {len(round_.draft_ids) for round_ in case.run()[0]}
    assert len(lengths) > 2 if cost < 0.9 else 0 in lengths


def test_measured_costs_do_not_change_the_text() -> None:
    for number in range(35_000, 35_040):
        for mode in ("lossless", "edge", "cloud"):
            period = {"loop_period": 0} if mode == "edge" else {}
            fixed = make_case(number, mode=mode, **period).run()[1]
            assert make_case(number, mode=mode, k="auto", **period).run()[1].token_ids == fixed.token_ids


def test_reading_the_prompt_early_changes_nothing() -> None:
    for number in range(33_000, 33_050):
        for mode in ("lossless", "hybrid"):
            lazy = make_case(number, mode=mode).run()[1]
            early = make_case(number, mode=mode, cloud_prefill="early").run()[1]
            assert lazy.token_ids == early.token_ids, (number, mode)
