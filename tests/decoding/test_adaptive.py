"""How far to draft: the formula, what it learns, and when it lets the cloud write alone."""

from __future__ import annotations

import math

import pytest

from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.build import block_length
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.gate import Gate, TokenEvidence
from specdec_cli.decoding.length import ALONE, MOST_DRAFTED, AdaptiveLength, Costs
from specdec_cli.types import ModelWork, Round
from tests.laws.cases import make_case
from tests.tiny import settings


def _length(mode: str, cost: float | None) -> AdaptiveLength:
    length = block_length(settings(mode=mode, k="auto", cost_ratio=cost), Costs())
    assert isinstance(length, AdaptiveLength)
    return length


def _block(*probabilities: float) -> Draft:
    evidence = tuple(TokenEvidence(7, 0.1, 0.9, math.log(p), ((7, p),)) for p in probabilities)
    return Draft((7,) * len(evidence), evidence=evidence)


def _verified(length: AdaptiveLength, block: Draft, accepted: int) -> None:
    length.learn(block, Verdict(accepted, 7))


def _ended(length: AdaptiveLength, *probabilities: float) -> bool:
    judge = Gate("always").open(0)
    judge.evidence.extend(_block(*probabilities).evidence)
    return length.enough(judge)


def _rate(a: float, cost: float, k: int) -> float:
    return (1 - a ** (k + 1)) / (1 - a) / (cost * (k + 0.1) + 1)


@pytest.mark.parametrize("cost", [0.01, 0.05, 0.1, 0.3, 0.6, 0.69])
def test_the_first_block_has_the_length_of_the_best_rate(cost: float) -> None:
    length = _length("lossless", cost)
    assert length.most() == max(range(MOST_DRAFTED + 1), key=lambda k: _rate(0.7, cost, k))


def test_blocks_grow_while_they_pass_and_shrink_when_they_do_not() -> None:
    length = _length("lossless", 0.12)
    seen = [length.most()]
    for _ in range(3):
        _verified(length, _block(*[0.9] * seen[-1]), seen[-1])
        seen.append(length.most())
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    for _ in range(12):
        _verified(length, _block(0.9, 0.9), 0)
    assert length.most() < seen[0]


def test_a_hopeless_edge_is_tried_again_only_now_and_then() -> None:
    """Never slower than the cloud alone by more than a few percent."""
    cost = 0.15
    length = _length("lossless", cost)
    time, tokens = 0.0, 0
    while tokens < 2000:
        k = length.most()
        _verified(length, _block(*[0.5] * k), 0)
        time += cost * k + (1 if k else ALONE)
        tokens += 1 if k else ALONE
    assert 1.0 < time / tokens < 1.03


def test_an_edge_that_costs_more_than_it_can_gain_is_not_asked() -> None:
    assert _length("lossless", 0.9).most() == 0
    assert _length("hybrid", 0.9).most() >= 1, "somebody has to write"


def test_drafting_ends_at_an_unlikely_token_that_will_be_verified() -> None:
    length = _length("lossless", 0.12)
    for _ in range(8):
        _verified(length, _block(0.9, 0.9, 0.9), 3)
    assert length.most() > 4
    assert not _ended(length, 0.9, 0.9)
    assert _ended(length, 0.9, 0.2)
    assert _ended(length, *[0.9] * 3, 0.05)


def test_blocks_of_a_sure_gate_are_longer_than_those_of_an_unsure_one() -> None:
    sure, unsure = (_length("hybrid", 0.12) for _ in range(2))
    for _ in range(20):
        sure.learn(_block(0.99, 0.99), None)
        _verified(unsure, _block(0.99, 0.4), 1)
    assert sure.most() > unsure.most()


def test_costs_are_medians_of_steps_without_prefills() -> None:
    costs = Costs()
    assert costs.ratio is None
    read = ModelWork(encoder_passes=1, forwards=1, prefill_ms=50.0)
    costs.drafted(ModelWork(), read)
    costs.verified(Verdict(1, 7, ms=10.0))
    assert costs.ratio is None, "a prefill is no step"
    costs.drafted(ModelWork(), ModelWork(encoder_passes=1, forwards=4, prefill_ms=50.0, step_ms=3.0))
    assert costs.ratio == pytest.approx(0.1)
    costs.verified(Verdict(1, 7, ms=900.0, prefilled=True))
    assert costs.ratio == pytest.approx(0.1), "a verification with a prefill is no measure of one without"
    costs.verified(Verdict(1, 7, (8, 9), ms=12.0, network_ms=6.0))  # three forwards, one round trip
    assert costs.ratio == pytest.approx(0.1)
    for ms in (1.0, 10.0, 400.0):
        costs.verified(Verdict(1, 7, ms=ms))
    assert costs.ratio == pytest.approx(0.1)


def test_other_modes_and_other_numbers_are_fixed() -> None:
    for given, most in (
        ({"mode": "lossless", "k": 3}, 3),
        ({"mode": "edge", "k": "auto"}, ALONE),
        ({"mode": "cloud", "k": "auto"}, ALONE),
    ):
        assert block_length(settings(**given), Costs()) == most


def test_where_nothing_is_drafted_the_cloud_writes_a_few_tokens() -> None:
    case = make_case(3, mode="lossless", k="auto", cost_ratio=5.0, loop_period=0, max_new_tokens=10)
    rounds, finished = case.run()
    assert all(isinstance(round_, Round) and round_.escalated and not round_.draft_ids for round_ in rounds)
    assert {source for round_ in rounds for source in round_.source} == {"cloud"}
    assert max(len(round_.committed_ids) for round_ in rounds) <= ALONE
    assert finished.edge is not None
    assert finished.edge.forwards == 0
