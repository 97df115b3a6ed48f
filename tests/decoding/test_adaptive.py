"""How far to draft: the formula, what it learns, and when it lets the cloud write alone."""

import math

import pytest

from specdec_cli.decoding.block import Block, Draft, Verdict
from specdec_cli.decoding.costs import COST, Costs, GuessCosts
from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import MOST_DEFERRED, PER_TOKEN, SOLO_BLOCK, BlockLength
from specdec_cli.transcript.recorder import totals
from specdec_cli.transcript.round import Round
from tests.laws.cases import collect, make_case
from tests.table import certain, table_loop
from tests.tiny import settings


def _length(mode: str, cost: float | None = None) -> BlockLength:
    return BlockLength(settings(mode=mode, k="auto", cost_ratio=cost).decoding, Costs())


def _block(*probabilities: float) -> Draft:
    gate = Gate("always").open(0)
    for p in probabilities:
        gate.add(TokenEvidence(7, 0.1, 0.9, math.log(p), ((7, p),)))
    return Draft((7,) * len(probabilities), gate_state=gate)


def _verified(length: BlockLength, block: Draft, accepted: int) -> None:
    length.add_verdict(block, Verdict(accepted, 7))


def test_a_hopeless_edge_is_tried_again_only_now_and_then():
    """Never slower than the cloud alone by more than a few percent."""
    cost = 0.15
    length = _length("lossless", cost)
    time, tokens = 0.0, 0
    while tokens < 2000:
        k = length.most()
        _verified(length, _block(*[0.5] * k), 0)
        time += cost * k + (1 if k else SOLO_BLOCK)
        tokens += 1 if k else SOLO_BLOCK
    assert 1.0 < time / tokens < 1.03


def test_deferred_drafts_of_which_nothing_stands_take_a_few_forwards_a_token():
    edge = certain({"^": "a", "a": "b", "b": "a", "c": "a"})
    cloud = certain(dict.fromkeys("^abc", "c"))
    loop = table_loop(edge, cloud, gate="always", defer=True, loop_period=0, max_new_tokens=100)
    rounds, finished = collect(loop.run())
    assert len(rounds) == len(finished.token_ids) == 100
    assert len(rounds[0].draft_ids) == MOST_DEFERRED
    assert finished.edge.forwards <= MOST_DEFERRED + (PER_TOKEN + 1) * 100


def test_an_edge_that_costs_more_than_it_can_gain_is_not_asked_where_the_cloud_writes():
    assert _length("lossless", 0.9).most() == 0
    assert _length("hybrid", 0.9).most() >= 1, "somebody has to write"
    for mode in ("edge", "cloud"):
        assert _length(mode).most() == SOLO_BLOCK


def test_the_cloud_writes_alone_where_guesses_make_it_faster_and_is_tried_now_and_then():
    costs = Costs()
    for _ in range(40):
        costs.record("token", 2.0)
        costs.record("verification", 10.0)
    for rate, expected in ((3.0, 0), (1.1, 2)):
        for _ in range(60):
            costs.alone.add(10 * rate, 10)
        length = BlockLength(settings(mode="lossless", k="auto").decoding, costs)
        assert (length.most() > 0) == (expected > 0)
    assert any(length.most() == 0 for _ in range(400)), "what is known of it fades"
    assert BlockLength(settings(mode="lossless", k="auto", guess_tokens=0).decoding, Costs()).most() > 0


def test_the_first_draft_of_a_clip_pays_for_its_prefill():
    def size(length: float, prefill_ms: float) -> int:
        costs = Costs()
        for what, ms in (("token", 2.0), ("verification", 10.0), ("prefill", prefill_ms)):
            costs.record(what, ms)
        costs.length.add(length)
        costs.alone.add(100, 100)
        block = BlockLength(settings(mode="lossless", k="auto").decoding, costs)
        first = block.most()
        block.add_verdict(_block(0.9, 0.9), Verdict(2, 7))  # the clip is read
        assert block.most() > 0
        return first

    assert size(60.0, 50.0) > 0
    assert size(60.0, 900.0) == 0
    assert size(8.0, 50.0) == 0


def test_the_cost_of_a_token_is_a_ratio_of_running_means():
    costs = Costs()
    assert costs.ratio == COST
    for _ in range(40):
        for token in (3.0, 0.0, 0.6):  # a guessed token takes no time, and the one before it that of both
            costs.record("token", token)
            costs.record("verification", 10.0)
    assert costs.ratio == pytest.approx(0.12, rel=0.1)
    costs.record("verification", 900.0)
    assert costs.ratio > 0.09, "a hiccup counts as three times the mean"


def test_a_prefill_is_no_measure_of_a_verification():
    case = make_case(5, mode="lossless", k=3, loop_period=0, max_new_tokens=3, min_new_tokens=3)
    loop, seen = case.loop(), list[str]()
    loop.calls.costs.record = lambda what, ms: seen.append(what)
    collect(loop.run())
    assert seen.count("verification") == loop.verifier.work.forwards - 1


def test_a_verification_that_also_reads_the_clip_has_its_share_of_the_forward():
    case = make_case(5, mode="lossless", k=3, loop_period=0, max_new_tokens=9, min_new_tokens=9, run_on=0)
    loop = case.loop()
    for event in loop.run():
        if isinstance(event, Block):
            break
    work, verdict = loop.verifier.work, event.verdict
    assert verdict.prefilled
    drafted, prompt = len(event.draft_ids), len(case.cloud_prompt.ids)
    assert work.step_ms / (work.prefill_ms + work.step_ms) == pytest.approx(drafted / (prompt + drafted))
    assert verdict.ms >= work.step_ms > 0


def test_guesses_that_cost_more_than_they_gain_are_left_out_and_tried_again():
    costs, chances = GuessCosts(), (0.9, 0.6, 0.3, 0.1)
    for _ in range(9):
        costs.record(0, 10.0)
        costs.record(4, 12.0)  # 0.05 forwards a guess
    assert costs.worth(chances) == 4
    for _ in range(30):
        costs.learn(1.9, 0)
    assert costs.worth(chances) < 2, "nothing stands"
    for _ in range(60):
        costs.record(4, 60.0)  # 1.25 forwards a guess
    assert costs.worth(chances) == 0
    assert any(costs.worth(chances) for _ in range(400))


def test_where_nothing_is_drafted_the_cloud_writes_a_few_tokens():
    case = make_case(3, mode="lossless", k="auto", cost_ratio=5.0, loop_period=0, max_new_tokens=10, min_new_tokens=10)
    rounds, finished = case.run()
    assert all(round_.escalated and not round_.draft_ids for round_ in rounds)
    assert {source for round_ in rounds for source in round_.source} == {"cloud"}
    assert max(len(round_.committed_ids) for round_ in rounds) <= SOLO_BLOCK
    assert finished.edge.forwards == 0
    records = [Round.of(block, case.pair.writer, "") for block in rounds]
    assert totals(records, finished, cloud_takes_part=True).run_on == 10 - len(rounds), "the first one is no run-on"
