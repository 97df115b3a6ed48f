"""Acceptance rules, and what counts as a near tie, against values worked out by hand."""

import math

import pytest
import torch

from specdec_cli.config.decoding_schema import AcceptanceRules
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, accept_block
from specdec_cli.decoding.rows import read


def _logs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows).log()


# The cloud's distributions where the draft stands, and behind it.
CLOUD = _logs([0.5, 0.3, 0.15, 0.05], [0.05, 0.6, 0.3, 0.05], [0.1, 0.2, 0.3, 0.4])


def _accepted(
    drafted: tuple[int, ...], scores: torch.Tensor, rules: AcceptanceRules, synonyms: Synonyms = NO_SYNONYMS
) -> tuple[int, int]:
    """How many drafted tokens a rule accepts, and the cloud's own after them, by its scores [m + 1, vocab]."""
    rows = read(scores, rules.rank, ids=torch.tensor([*drafted, 0]), doubt=True)
    accepted = accept_block(rules, rules.in_force(sampling=False), rows[:-1], synonyms)
    return accepted, rows[accepted].id


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
        # typical: H = 1.142 and 0.967 nats, 0.3 e^-H = 0.096 and 0.114, so the floor is 0.09
        ("typical", {}, (2, 2), 2, 3),
        ("typical", {}, (3, 1), 0, 0),
        ("class", {}, (2, 1), 2, 3),  # 0 and 2 say the same
        ("class", {}, (1, 1), 0, 0),
        ("class", {}, (0, 3), 1, 1),
    ],
)
def test_rules(rule, extra, ids, accepted, token):
    rules = AcceptanceRules(rule=rule, **extra)
    found = _accepted(ids, CLOUD, rules, {0: 7, 2: 7, 3: 8})
    assert found == (accepted, token)


def test_the_typical_floor_falls_where_the_cloud_is_unsure():
    cloud = _logs([0.955 / 12] * 12 + [0.03, 0.015], [1 / 14] * 14)  # H = 2.60 nats, 0.3 e^-H = 0.022
    for token, accepted in ((0, 1), (12, 1), (13, 0)):
        rules = AcceptanceRules(rule="typical")
        found = _accepted((token,), cloud, rules)
        assert found[0] == accepted


def test_the_typical_floor_is_never_above_its_epsilon():
    cloud = _logs([0.5, 0.308, 0.1, 0.092], [0.25] * 4)  # H = 1.159 nats, 0.3 e^-H = 0.094
    assert _accepted((3,), cloud, AcceptanceRules(rule="typical"))[0] == 1


def test_rank_ties_count_for_the_draft_and_impossible_tokens_never_pass():
    tied = torch.tensor([[1.0, 1.0, 1.0, -math.inf], [0.0, 0.0, 0.0, 0.0]])
    rules = AcceptanceRules(rule="rank", rank=4)
    assert _accepted((2,), tied, rules)[0] == 1
    assert _accepted((3,), tied, rules)[0] == 0


def test_near_ties_are_pairs_that_a_number_format_cannot_tell_apart():
    rows = torch.tensor(
        [
            [1.0, 1.0 + 1e-5, 0.0, -1.0],  # as good as equal
            [1.0, 1.001, 0.0, -1.0],
            [100.0, 100.015, 0.0, -100.0],  # a wide row, whose standard deviation is 82 without the impossible token
            [-math.inf, 2.0, 2.0, -math.inf],  # equal
            [3.0, -math.inf, -math.inf, -math.inf],  # nothing to be confused with
        ]
    )
    assert [row.ties(2e-4) for row in read(rows, spread=True)] == [True, False, True, True, False]
    assert [row.ties(1e-2) for row in read(rows, spread=True)] == [True, True, True, True, False]
