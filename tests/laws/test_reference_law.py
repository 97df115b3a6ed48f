"""Reference law: for every gate, rule and k, the rounds equal those of a reference without caches.

They may part only where a decision was a close call, and no text may part in more than a few of a run's cases. From
`ENOUGH` cases on, every test also sees that its cases are not trivial.
"""

import random
from collections import Counter
from collections.abc import Sequence

from specdec_cli.decoding.block import Block
from tests.laws.cases import GATES, Case, make_case, mixed
from tests.laws.checks import reference_law
from tests.laws.tolerance import ENOUGH, cases, numbers

GREEDY_RULES = ("greedy", "rank", "prob", "typical", "class")
WAYS = len(GATES) * len(GREEDY_RULES) * 2


def rounds_of(ran: Sequence[Case]) -> list[Block]:
    """All rounds of the cases."""
    return [round_ for case in ran for rounds, _ in case.ran for round_ in rounds]


def gated_case(number: int) -> Case:
    """A hybrid case; the number decides gate, rule, k and whether drafts stop."""
    at = number % WAYS
    gate, rule = GATES[at % len(GATES)], GREEDY_RULES[at // len(GATES) % len(GREEDY_RULES)]
    stop = at // (len(GATES) * len(GREEDY_RULES)) == 1
    ways = {"gate": gate, "acceptance": rule, "loop_period": 0, "k": 1 + number % 8, "stop_drafting": stop}
    return make_case(number, mode="hybrid", **ways)


def test_greedy_rounds_equal_the_reference(law):
    """Every gate with every rule, with drafts that stop and drafts that do not: 70 ways."""
    ran = law("reference, gates", map(gated_case, numbers(40_040, 0.42)), reference_law)
    if cases() < ENOUGH:
        return
    blocks = rounds_of([case for case in ran if case.given["gate"] not in ("always", "never")])
    escalated = [round_ for round_ in blocks if round_.escalated]
    assert len(escalated) > 50
    assert len(blocks) - len(escalated) > 50
    assert sum("bonus" in round_.source for round_ in escalated) > 20
    assert sum(0 < round_.accepted < len(round_.draft_ids) for round_ in escalated) > 5
    cut = {case.given["gate"]: cut_short(case) for case in ran if cut_short(case)}
    assert set(cut) == {"entropy", "margin", "logprob", "class-entropy"}
    assert all(round_.escalated for rounds in cut.values() for round_ in rounds)


def test_sampled_rounds_equal_the_reference(law):
    def case(number: int) -> Case:
        rule = ("sampling", "rank", "prob", "typical", "class")[number // 2 % 5]
        temperature, top_k, top_p = (0.7, 1.0, 1.3)[number % 3], (None, 12)[number % 2], (None, 0.95)[number // 3 % 2]
        drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        return make_case(number, mode="hybrid", acceptance=rule, loop_period=0, **drawn)

    law("reference, sampled", map(case, numbers(50_000, 0.16)), reference_law)


def test_blocks_that_pay_equal_the_reference(law):
    def case(number: int) -> Case:
        rule, cost = ("greedy", "rank", "sampling")[number % 3], (0.02, 0.15, 0.5)[number // 3 % 3]
        gate = GATES[number % len(GATES)]
        drawn = {"acceptance": rule, "gate": gate, "temperature": 0.8 if rule == "sampling" else 0.0}
        return make_case(number, mode="hybrid", k="auto", cost_ratio=cost, loop_period=0, max_new_tokens=18, **drawn)

    ran = law("reference, k auto", map(case, numbers(55_000, 0.12)), reference_law)
    assert cases() < ENOUGH or len({len(round_.draft_ids) for round_ in rounds_of(ran)}) > 4


def test_deferred_rounds_equal_the_reference(law):
    """All of the caption is drafted before the gate decides, by another threshold until the cloud has been called."""

    def case(number: int) -> Case:
        gate, rule = GATES[number % len(GATES)], GREEDY_RULES[number // len(GATES) % len(GREEDY_RULES)]
        drawn = {
            "gate": gate,
            "acceptance": rule,
            "stop_drafting": number % 2 == 0,
            "loop_period": (0, 8)[number % 3 == 0],
        }
        ends = {
            "stop_strings": ((), (), tuple("aeiou"))[number % 3],
            "cloud_prefill": ("lazy", "lazy", "overlap")[number // 2 % 3],
        }
        return make_case(number, mode="hybrid", defer=True, **drawn, **ends)

    ran = law("reference, deferred", map(case, numbers(70_000, 0.16)), reference_law)
    if cases() < ENOUGH:
        return
    clips = [rounds for case in ran for rounds, _ in case.ran]
    asleep = [rounds for rounds in clips if not any(round_.escalated for round_ in rounds)]
    assert len(asleep) > 3
    assert any(len(round_.draft_ids) > 8 for rounds in asleep for round_ in rounds)
    assert sum(round_.draft.gate_state.waking for rounds in clips for round_ in rounds if round_.escalated) > 3
    assert sum(not round_.draft.gate_state.waking for rounds in clips for round_ in rounds) > 3


def mixed_case(number: int) -> Case:
    """Any mode, rule, stop rule and length, with the cloud beside the edge or not, inclined to loop or not."""
    return make_case(number, **mixed(random.Random(f"mixed {number}")))


def test_everything_at_once_equals_the_reference(law):
    ran = law("reference, everything", map(mixed_case, numbers(57_500, 0.5)), reference_law)
    if cases() < ENOUGH:
        return
    assert {case.given["mode"] for case in ran} == {"hybrid", "lossless", "edge", "cloud"}
    ends = Counter(finished.finish_reason for case in ran for _, finished in case.ran)
    assert set(ends) == {"eos", "max_tokens", "stop_string", "sentences", "loop"}
    reasons = Counter(str(round_.reason) for round_ in rounds_of(ran))
    assert set(reasons) >= {"entropy", "margin", "logprob", "class-entropy", "random", "loop", "always", "None"}
    assert any(map(cut_short, ran))


def cut_short(case: Case) -> list[Block]:
    """Blocks that ended early with a token at which a draft may only end if the gate says so."""
    given, drawn, cut = case.given, 0, list[Block]()
    if given["k"] == "auto" or given["mode"] != "hybrid" or not given["stop_drafting"]:
        return cut  # where k is auto, blocks end early for another reason, too
    for round_ in case.ran[0][0]:
        whole = min(given["k"], given["max_new_tokens"] - drawn)
        if len(round_.draft_ids) < whole and round_.draft_ids[-1] not in case.pair.processor.eos_ids:
            cut.append(round_)
        drawn += len(round_.committed_ids)
    return cut
