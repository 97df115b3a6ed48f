"""Reference law: for every gate, rule and k, the rounds equal those of a reference without caches.

They may part only where a decision was a close call, and no text may part in more than a few of a run's cases.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from specdec_cli.types import Round
from tests.laws.cases import GATES, Case, make_case, mixed
from tests.laws.checks import reference_law
from tests.laws.conftest import Run
from tests.laws.tolerance import numbers

GREEDY_RULES = ("greedy", "rank", "prob", "typical")


def gated_case(number: int, **fixed: object) -> Case:
    """A hybrid case; the number decides gate, rule, k and whether drafts stop."""
    at = number % (len(GATES) * len(GREEDY_RULES) * 2)
    gate, rule = GATES[at % len(GATES)], GREEDY_RULES[at // len(GATES) % len(GREEDY_RULES)]
    stop = at // (len(GATES) * len(GREEDY_RULES)) == 1
    ways = {"gate": gate, "acceptance": rule, "loop_period": 0, "k": 1 + number % 8, "stop_drafting": stop}
    return make_case(number, mode="hybrid", **{**ways, **fixed})


@pytest.mark.parametrize("gate", GATES)
def test_greedy_rounds_equal_the_reference(law: Run, gate: str) -> None:
    cases = (gated_case(n, gate=gate) for n in numbers(40_000 + 1000 * GATES.index(gate), 0.4))
    law(f"reference, {gate}", cases, reference_law)


@pytest.mark.parametrize("rule", ["sampling", "rank", "prob", "typical"])
def test_sampled_rounds_equal_the_reference(law: Run, rule: str) -> None:
    def case(number: int) -> Case:
        temperature, top_k, top_p = (0.7, 1.0, 1.3)[number % 3], (None, 12)[number % 2], (None, 0.95)[number // 2 % 2]
        drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "run_on": (0, 3)[number // 4 % 2]}
        return make_case(number, mode="hybrid", acceptance=rule, loop_period=0, **drawn)

    law(f"reference, sampled, {rule}", map(case, numbers(50_000 + 1000 * len(rule), 0.25)), reference_law)


@pytest.mark.parametrize("rule", ["greedy", "rank", "sampling"])
def test_blocks_that_pay_equal_the_reference(law: Run, rule: str) -> None:
    def case(number: int) -> Case:
        gate, cost = GATES[number % len(GATES)], (0.02, 0.15, 0.5)[number % 3]
        drawn = {"acceptance": rule, "gate": gate, "temperature": 0.8 if rule == "sampling" else 0.0}
        return make_case(number, mode="hybrid", k="auto", cost_ratio=cost, loop_period=0, max_new_tokens=18, **drawn)

    law(f"reference, k auto, {rule}", map(case, numbers(55_000, 0.25)), reference_law)
    lengths = {len(round_.draft_ids) for n in range(55_000, 55_036) for round_ in case(n).run()[0]}
    assert len(lengths) > 4, "a guard against trivial cases"


def mixed_case(number: int) -> Case:
    """Any mode, rule, stop rule and length, with the cloud beside the edge or not, inclined to loop or not."""
    return make_case(number, **mixed(random.Random(f"mixed {number}")))


def test_everything_at_once_equals_the_reference(law: Run) -> None:
    law("reference, everything", map(mixed_case, numbers(57_000)), reference_law)


@pytest.mark.parametrize("rule", GREEDY_RULES)
def test_running_on_equals_the_reference(law: Run, rule: str) -> None:
    def case(number: int) -> Case:
        return make_case(number, mode="hybrid", acceptance=rule, loop_period=0, run_on=1 + number % 4)

    law(f"reference, run on, {rule}", map(case, numbers(120_000 + 1000 * len(rule), 0.15)), reference_law)
    rounds = [round_ for n in range(120_000, 120_020) for round_ in case(n).run()[0]]
    assert sum(round_.source.count("cloud") for round_ in rounds) > 10, "a guard against trivial cases"


# --- guards against trivial cases ---


def test_thresholds_do_escalate_some_blocks_and_keep_others() -> None:
    blocks = [round_ for number in range(60_000, 60_100) for round_ in make_case(number, mode="hybrid").run()[0]]
    escalated = [round_ for round_ in blocks if round_.escalated]
    kept_whole = [round_ for round_ in escalated if "bonus" in round_.source]
    partly = [round_ for round_ in escalated if 0 < round_.accepted < len(round_.draft_ids)]
    assert len(escalated) > 50
    assert len(blocks) - len(escalated) > 50
    assert len(kept_whole) > 20
    assert len(partly) > 10


def test_stopping_does_end_blocks_early_and_only_escalated_ones() -> None:
    cut = 0
    for number in range(61_000, 61_060):
        case = make_case(number, mode="hybrid", loop_period=0, stop_drafting=True, k=6, max_new_tokens=18)
        rounds, _ = case.run()
        for round_ in rounds[:-1]:
            short = len(round_.draft_ids) < 6 and not set(round_.draft_ids) & set(case.pair.writer.eos_ids)
            budget = sum(len(r.committed_ids) for r in rounds[: round_.index]) + 6 <= 18
            if short and budget and case.given["gate"] != "random":
                assert round_.escalated, number
                cut += 1
    assert cut > 50


def test_mixed_cases_are_mixed() -> None:
    modes, ends, reasons, cut = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for number in range(57_000, 57_200):
        case = mixed_case(number)
        rounds, finished = case.run()
        modes[case.given["mode"]] += 1
        ends[finished.finish_reason] += 1
        reasons.update(str(round_.reason) for round_ in rounds)
        cut.update(_cut_short(case, rounds))
    assert set(modes) == {"hybrid", "lossless", "edge", "cloud"}
    assert set(ends) == {"eos", "max_tokens", "stop_string", "sentences", "loop"}
    assert set(reasons) >= {"entropy", "margin", "logprob", "learned", "random", "loop", "always", "None"}
    assert set(cut) == {"entropy", "margin", "logprob", "learned"}


def _cut_short(case: Case, rounds: list[Round]) -> list[str]:
    """The gate of every block that ended early with a token at which a draft may only end if the gate says so."""
    given, drawn, ends = case.given, 0, []
    if given["k"] == "auto":  # such blocks end early for another reason, too
        return ends
    for round_ in rounds:
        whole = min(given["k"], given["max_new_tokens"] - drawn)
        short = len(round_.draft_ids) < whole and round_.draft_ids[-1] not in case.pair.writer.eos_ids
        if given["stop_drafting"] and given["mode"] == "hybrid" and short:
            ends.append(given["gate"])
        drawn += len(round_.committed_ids)
    return ends
