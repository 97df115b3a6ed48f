"""Reference law: for every gate, rule and k, the tokens equal a reference that recomputes everything from scratch."""

from __future__ import annotations

import pytest

from tests.laws.cases import make_case
from tests.laws.reference import reference_text

GATES = ("entropy", "margin", "logprob", "learned", "random", "always", "never")
GREEDY_RULES = ("greedy", "rank", "prob", "typical")


@pytest.mark.parametrize("stop", [False, True], ids=["whole blocks", "stopping"])
@pytest.mark.parametrize("rule", GREEDY_RULES)
@pytest.mark.parametrize("gate", GATES)
def test_greedy_text_equals_the_reference(gate: str, rule: str, stop: bool) -> None:
    base = 40_000 + 1000 * GATES.index(gate) + 100 * GREEDY_RULES.index(rule) + 50 * stop
    for number in range(base, base + 6):
        fixed = {"acceptance": rule, "loop_period": 0, "k": 1 + number % 8, "stop_drafting": stop}
        case = make_case(number, mode="hybrid", **fixed)
        if case.options.gate != gate:
            case = make_case(number, mode="hybrid", gate=gate, threshold=None, **fixed)
        rounds, finished = case.run()
        expected, escalations = reference_text(case)
        assert list(finished.token_ids) == expected, number
        assert sum(round_.escalated for round_ in rounds) == escalations, number


@pytest.mark.parametrize("rule", ["sampling", "rank", "prob", "typical"])
def test_sampled_text_equals_the_reference(rule: str) -> None:
    base = 50_000 + 100 * len(rule)
    for number in range(base, base + 25):
        case = make_case(
            number,
            mode="hybrid",
            acceptance=rule,
            loop_period=0,
            temperature=(0.7, 1.0, 1.3)[number % 3],
            top_k=(None, 12)[number % 2],
            top_p=(None, 0.95)[number % 2],
        )
        _, finished = case.run()
        expected, _ = reference_text(case)
        assert list(finished.token_ids) == expected, number


@pytest.mark.parametrize("rule", ["greedy", "rank", "sampling"])
def test_blocks_that_pay_give_the_text_of_the_reference(rule: str) -> None:
    lengths = set()
    for number in range(55_000, 55_036):
        gate, cost = GATES[number % len(GATES)], (0.02, 0.15, 0.5)[number % 3]
        fixed = {"acceptance": rule, "loop_period": 0, "k": "auto", "cost_ratio": cost, "max_new_tokens": 18}
        fixed["temperature"] = 0.8 if rule == "sampling" else 0.0
        case = make_case(number, mode="hybrid", **fixed)
        if case.options.gate != gate:
            case = make_case(number, mode="hybrid", gate=gate, threshold=None, **fixed)
        rounds, finished = case.run()
        expected, escalations = reference_text(case)
        assert list(finished.token_ids) == expected, number
        assert sum(round_.escalated for round_ in rounds) == escalations, number
        lengths |= {len(round_.draft_ids) for round_ in rounds}
    assert len(lengths) > 4


def test_thresholds_do_escalate_some_blocks_and_keep_others() -> None:
    """Guards the tests above against drawing only trivial cases."""
    blocks = [round_ for number in range(60_000, 60_100) for round_ in make_case(number, mode="hybrid").run()[0]]
    escalated = [round_ for round_ in blocks if round_.escalated]
    kept_whole = [round_ for round_ in escalated if "bonus" in round_.source]
    partly = [round_ for round_ in escalated if 0 < round_.accepted < len(round_.draft_ids)]
    assert len(escalated) > 50
    assert len(blocks) - len(escalated) > 50
    assert len(kept_whole) > 20
    assert len(partly) > 10


def test_stopping_does_end_blocks_early_and_only_escalated_ones() -> None:
    """Guards against a gate that never stops a draft."""
    cut = 0
    for number in range(61_000, 61_060):
        case = make_case(number, mode="hybrid", loop_period=0, stop_drafting=True, k=6, max_new_tokens=18)
        rounds, _ = case.run()
        for round_ in rounds[:-1]:
            short = len(round_.draft_ids) < 6 and not set(round_.draft_ids) & set(case.pair.writer.eos_ids)
            budget = sum(len(r.committed_ids) for r in rounds[: round_.index]) + 6 <= 18
            if short and budget and case.options.gate != "random":
                assert round_.escalated, number
                cut += 1
    assert cut > 50
