"""Acceptance rules and gates against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from specdec_cli.config.schema import AcceptanceConfig
from specdec_cli.decoding.accept import accept_block, near_ties
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.evidence import Groups, entropies, evidence_of
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.scores import draw
from specdec_cli.errors import DecodingError
from tests.laws.cases import collect, make_case
from tests.table import TableModel, table_loop


def _logs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows).log()


# The cloud's distributions where the draft stands, and behind it.
CLOUD = _logs([0.5, 0.3, 0.15, 0.05], [0.05, 0.6, 0.3, 0.05], [0.1, 0.2, 0.3, 0.4])


def _draft(*ids: int) -> Draft:
    return Draft(ids, _logs(*[[0.25] * 4] * len(ids)))


@pytest.mark.parametrize(
    ("rule", "extra", "ids", "accepted", "token"),
    [
        ("greedy", {}, (0, 1), 2, 3),
        ("greedy", {}, (0, 2), 1, 1),
        ("greedy", {}, (1, 1), 0, 0),
        ("rank", {"rank": 1}, (0, 2), 1, 1),
        ("rank", {"rank": 2}, (1, 2), 2, 3),
        ("rank", {"rank": 2}, (2, 1), 0, 0),
        ("prob", {"prob": 0.29}, (1, 2), 2, 3),
        ("prob", {"prob": 0.31}, (1, 2), 0, 0),
        ("prob", {"prob": 0.31}, (0, 2), 1, 1),
        # typical: H = 1.142 and 0.967 nats, delta e^-H = 0.096 and 0.114, so the floor is epsilon, then delta e^-H
        ("typical", {"typical_epsilon": 0.09, "typical_delta": 0.3}, (2, 2), 2, 3),
        ("typical", {"typical_epsilon": 0.9, "typical_delta": 0.3}, (3, 1), 0, 0),
        ("typical", {"typical_epsilon": 0.9, "typical_delta": 0.5}, (2, 1), 0, 0),
        # cascade: the edge is even (0.25), the cloud at most 0.5 and 0.6, their distances are 0.3 and 0.4
        ("cascade", {"cascade_alpha": 0.0}, (0, 2), 1, 1),
        ("cascade", {"cascade_alpha": 0.84}, (2, 2), 1, 1),
        ("cascade", {"cascade_alpha": 0.82}, (2, 2), 0, 0),
        ("cascade", {"cascade_alpha": 0.88}, (2, 2), 2, 3),
        ("class", {}, (2, 1), 2, 3),  # 0 and 2 say the same
        ("class", {}, (1, 1), 0, 0),
        ("class", {}, (0, 3), 1, 1),
    ],
)
def test_rules(rule: str, extra: dict[str, float], ids: tuple[int, ...], accepted: int, token: int) -> None:
    rules = AcceptanceConfig(rule=rule, **extra)
    found = accept_block(_draft(*ids), CLOUD, rules, torch.Generator(), sampling=False, synonyms={0: 7, 2: 7, 3: 8})
    assert found == (accepted, token)


def test_rank_ties_count_for_the_draft_and_impossible_tokens_never_pass() -> None:
    tied = torch.tensor([[1.0, 1.0, 1.0, -math.inf], [0.0, 0.0, 0.0, 0.0]])
    rules = AcceptanceConfig(rule="rank", rank=4)
    assert accept_block(_draft(2), tied, rules, torch.Generator(), sampling=False)[0] == 1
    assert accept_block(_draft(3), tied, rules, torch.Generator(), sampling=False)[0] == 0


def test_entropy_with_impossible_tokens_is_not_nan() -> None:
    probabilities = torch.tensor([[0.0, 0.0, -math.inf], [0.0, -math.inf, -math.inf]]).softmax(-1)
    assert entropies(probabilities).tolist() == pytest.approx([math.log(2), 0.0])


@pytest.mark.parametrize(
    ("gate", "threshold", "escalates"),
    [
        ("entropy", 0.5, True),
        ("entropy", 0.6, False),
        ("margin", 0.61, True),
        ("margin", 0.59, False),
        ("logprob", -0.22, True),
        ("logprob", -0.23, False),
        ("always", None, True),
        ("never", None, False),
    ],
)
def test_gates(gate: str, threshold: float | None, escalates: bool) -> None:
    # p = 0.8, 0.2: entropy 0.500 nats, margin 0.6, log p = -0.223
    judged = Gate(gate, threshold).open(0)  # type: ignore[arg-type]
    judged.add_all(_logs([0.8, 0.2]), (0,))
    assert judged.escalates is escalates
    assert judged.reason == (gate if escalates else None)
    assert [token.entropy for token in judged.evidence] == pytest.approx([0.5004024])
    figure = {"margin": 0.6, "logprob": math.log(0.8)}.get(gate, 0.5004024)
    assert judged.values == pytest.approx([figure])


@pytest.mark.parametrize(
    ("groups", "nats"),
    [
        ({0: 0, 1: 0, 2: 1}, 0.5004024),  # two words for one class, 0.8, and a word for another
        ({0: 0, 1: 1}, 1.0549202),  # 0.4, 0.4 and all else, 0.2
        ({3: 0}, 0.0),  # all of it names no class
    ],
)
def test_entropy_between_classes(groups: dict[int, int], nats: float) -> None:
    judged = Gate("class-entropy", 0.45, groups=Groups.of(groups, 4)).open(0)
    judged.add_all(_logs([0.4, 0.4, 0.2, 0.0]), (0,))
    assert judged.values == pytest.approx([nats], abs=1e-6)
    assert judged.evidence[0].entropy == pytest.approx(1.0549202)
    assert judged.reason == ("class-entropy" if nats > 0.45 else None)


def test_class_entropy_needs_groups() -> None:
    with pytest.raises(DecodingError, match="no groups"):
        Gate("class-entropy").open(0).add_all(_logs([0.8, 0.2]), (0,))


def test_one_unsure_token_escalates_the_block() -> None:
    rows = _logs([0.99, 0.01], [0.5, 0.5], [0.99, 0.01])
    for gate, threshold in (("entropy", 0.6), ("margin", 0.1), ("logprob", -0.6)):
        judged = Gate(gate, threshold).open(0)  # type: ignore[arg-type]
        judged.add_all(rows, (0, 0, 0))
        assert judged.escalates


def test_entropy_is_taken_after_the_processors() -> None:
    """Two tokens are left after top-k, so their two probabilities alone count, whatever the raw distribution."""
    skewed = TableModel(torch.arange(36.0).reshape(6, 6))
    rounds, _ = collect(table_loop(skewed, None, temperature=1.0, top_k=2, k=3, max_new_tokens=3).run())
    gap = 1 / (1 + math.e)
    expected = -(gap * math.log(gap) + (1 - gap) * math.log(1 - gap))
    assert rounds[0].entropy == pytest.approx([expected] * len(rounds[0].entropy), abs=1e-4)


def test_draws_follow_the_distribution_and_the_seed() -> None:
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    generator = torch.Generator().manual_seed(1)
    counts = torch.bincount(torch.tensor([draw(probabilities, generator) for _ in range(3000)]), minlength=3) / 3000
    torch.testing.assert_close(counts, probabilities, rtol=0, atol=0.03)
    again = torch.Generator().manual_seed(1)
    assert [draw(probabilities, again) for _ in range(5)] == [
        draw(probabilities, g) for g in [torch.Generator().manual_seed(1)] for _ in range(5)
    ]


def test_near_ties_are_pairs_that_a_number_format_cannot_tell_apart() -> None:
    rows = torch.tensor(
        [
            [1.0, 1.0 + 1e-5, 0.0, -1.0],  # as good as equal
            [1.0, 1.001, 0.0, -1.0],
            [100.0, 100.015, 0.0, -100.0],  # a wide row, whose standard deviation is 82 without the impossible token
            [-math.inf, 2.0, 2.0, -math.inf],  # equal
            [3.0, -math.inf, -math.inf, -math.inf],  # nothing to be confused with
        ]
    )
    assert [near_ties(row[None], 2e-4) for row in rows] == [1, 0, 1, 1, 0]
    assert near_ties(rows, 2e-4) == 3
    assert near_ties(rows, 1e-2) == 4


def test_random_models_count_few_near_ties() -> None:
    counted = verified = 0
    for number in range(94_000, 94_040):
        for round_ in make_case(number, mode="lossless").run()[0]:
            assert round_.near_ties is not None
            counted, verified = counted + round_.near_ties, verified + round_.accepted + 1
    assert verified > 300
    assert counted < 0.02 * verified
    assert all(round_.near_ties is None for round_ in make_case(94_000, mode="edge").run()[0])


def test_sources_and_counts_add_up() -> None:
    edge = TableModel(torch.tensor([[0.0, -9, 3, 1], [0, 0, 0, 0], [0, 0, 1, 3.0], [0, 3.0, 1, 1]]))
    sure = TableModel(torch.tensor([[0.0, -9, 3, 1], [0, 0, 0, 0], [0, 0, 3.0, 1], [0, 3.0, 1, 1]]))
    rounds, finished = collect(table_loop(edge, sure, mode="lossless", k=3, max_new_tokens=6, loop_period=0).run())
    assert [token for round_ in rounds for token in round_.committed_ids] == list(finished.token_ids)
    for round_ in rounds:
        assert len(round_.source) == len(round_.committed_ids)
        assert round_.source[: round_.accepted] == ("accepted",) * min(round_.accepted, len(round_.source))
        if len(round_.source) > round_.accepted:
            assert round_.source[-1] == ("bonus" if round_.accepted == len(round_.draft_ids) else "corrected")


def test_the_cloud_is_woken_by_a_threshold_of_its_own() -> None:
    unsure = evidence_of(_logs([0.6, 0.4, 0.0, 0.0]), [0])[0]  # 0.673 nats
    gate = Gate("entropy", 0.5, wake=0.8, stop_drafting=True)
    asleep, awake = gate.open(0, waking=True, whole=True), gate.open(0, whole=True)
    assert (asleep.add(unsure), asleep.reason, asleep.stops) == (False, None, False)
    assert (awake.add(unsure), awake.reason, awake.stops) == (True, "entropy", False)
    assert gate.open(0).stops
    assert Gate("entropy", 0.5).wake == 0.5
