"""How far to draft: the formula, and when it lets the cloud write alone."""

import math

import pytest
import torch

from specdec_cli.decoding.block import Block, Draft, Verdict
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import MOST_DEFERRED, MOST_DRAFTED, PER_TOKEN, SOLO_BLOCK, BlockLength
from specdec_cli.decoding.rows import TokenEvidence
from tests.laws.cases import collect, make_case
from tests.table import TableModel, certain, spelled, table_loop
from tests.tiny import settings

CHAIN = {"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": ""}


def _length(mode: str, cost: float = 0.2) -> BlockLength:
    return BlockLength(settings(mode=mode, k="auto", cost_ratio=cost).decoding)


def _block(*probabilities: float) -> Draft:
    gate = Gate("always").open()
    for p in probabilities:
        gate.add(TokenEvidence(7, 0.1, 0.9, math.log(p), ((7, p),)))
    return Draft((7,) * len(probabilities), gate_state=gate)


def test_a_hopeless_edge_soon_leaves_the_cloud_alone():
    length, drafted = _length("lossless"), 0
    while length.most() and drafted < 100:
        size = next(k for k in range(1, MOST_DRAFTED + 1) if length.enough(_block(*[0.5] * k).gate_state))
        length.add_verdict(_block(*[0.5] * size), Verdict(0, 7))
        drafted += size
    assert 0 < drafted < 8


def test_a_block_ends_where_another_token_would_hardly_stand():
    sure, unsure = _block(*[0.99] * MOST_DRAFTED).gate_state, _block(0.99, 0.3).gate_state
    for mode in ("hybrid", "lossless"):
        assert _length(mode).most() == MOST_DRAFTED
        assert not _length(mode).enough(sure)
        assert _length(mode).enough(unsure)
        assert not _length(mode, 0.05).enough(unsure), "a cheap token may be wrong"


def test_deferred_drafts_of_which_nothing_stands_take_a_few_forwards_a_token():
    edge = certain({"^": "a", "a": "b", "b": "a", "c": "a"})
    cloud = certain(dict.fromkeys("^abc", "c"))
    loop = table_loop(edge, cloud, gate="always", defer=True, loop_period=0, max_new_tokens=100)
    rounds, finished = collect(loop.events())
    assert len(rounds) == len(finished.token_ids) == 100
    assert len(rounds[0].draft_ids) == MOST_DEFERRED == 64
    assert finished.edge.forwards <= MOST_DEFERRED + (PER_TOKEN + 1) * 100


def test_an_edge_that_costs_more_than_it_can_gain_is_not_asked_where_the_cloud_writes():
    assert _length("lossless", 0.9).most() == 0
    assert _length("hybrid", 0.9).most() >= 1, "somebody has to write"
    for mode in ("edge", "cloud"):
        assert _length(mode).most() == SOLO_BLOCK


def test_a_verification_that_also_reads_the_clip_has_its_share_of_the_forward():
    case = make_case(5, mode="lossless", k=3, loop_period=0, max_new_tokens=9, min_new_tokens=9)
    loop = case.loop()
    for event in loop.events():
        if isinstance(event, Block):
            break
    work, verdict = loop.verifier.work, event.verdict
    assert verdict.prefilled
    drafted, prompt = len(event.draft_ids), len(case.cloud_prompt.ids)
    assert work.step_ms / (work.prefill_ms + work.step_ms) == pytest.approx(drafted / (prompt + drafted))
    assert verdict.ms >= work.step_ms > 0


def test_where_nothing_is_drafted_the_cloud_writes_a_few_tokens():
    edge, sure, undecided = certain({"^": "d"}), certain(CHAIN), TableModel(torch.zeros(8, 8))
    alone = {"mode": "lossless", "k": "auto", "cost_ratio": 5.0, "loop_period": 0}
    for budget in range(1, 9):
        rounds, finished = collect(table_loop(edge, sure, max_new_tokens=budget, **alone).events())
        assert spelled(edge, finished.token_ids) == "abcdef"[:budget]
        assert all(round_.escalated and not round_.draft_ids for round_ in rounds)
        assert {source for round_ in rounds for source in round_.source} == {"cloud"}
        assert max(len(round_.committed_ids) for round_ in rounds) <= SOLO_BLOCK
        assert finished.edge.forwards == 0
        assert finished.cloud.fed_tokens <= budget + 2, "what cannot be committed is not generated"
    rounds, _ = collect(table_loop(edge, undecided, max_new_tokens=4, **alone).events())
    assert [(len(round_.committed_ids), round_.verdict and round_.verdict.near_ties) for round_ in rounds] == [(4, 4)]
