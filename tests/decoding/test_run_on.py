"""How many tokens the cloud generates after its own one."""

import torch

from specdec_cli.decoding.block import Draft, Verdict, outcome
from tests.laws.cases import collect
from tests.table import TableModel, certain, spelled, table_loop

CHAIN = {"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": ""}


def test_nothing_is_generated_beyond_the_budget_or_an_accepted_end():
    edge, sure = certain({"^": "d"}), certain(CHAIN)
    for budget in range(1, 7):
        _, finished = collect(
            table_loop(edge, sure, mode="lossless", k=2, run_on=64, max_new_tokens=budget, loop_period=0).run()
        )
        assert spelled(edge, finished.token_ids) == "abcdef"[:budget]
        assert finished.cloud.fed_tokens <= budget + 2, "what cannot be committed is not generated"
    _, finished = collect(table_loop(certain(CHAIN), sure, mode="lossless", k=8, run_on=5).run())
    assert (len(finished.token_ids), finished.cloud.forwards) == (7, 1), "nor what follows an accepted end"


def test_near_ties_are_counted_where_the_cloud_runs_on():
    edge, undecided = certain(CHAIN), TableModel(torch.zeros(8, 8))
    rounds, _ = collect(
        table_loop(edge, undecided, mode="lossless", k=2, run_on=3, loop_period=0, max_new_tokens=4).run()
    )
    assert [(len(round_.committed_ids), round_.verdict and round_.verdict.near_ties) for round_ in rounds] == [(4, 4)]


def test_scores_of_a_draft_stand_in_at_its_own_places_alone():
    rows = tuple(((id_, 0.5),) for id_ in (5, 6, 7, 8))
    found = outcome(Draft((5, 6, 7, 8), likeliest=rows), Verdict(1, 4, run_on=(3, 2)), "edge", 1)
    assert [token.alternatives for token in found] == [
        ("edge", rows[0]),
        ("edge", rows[1]),
        ("cloud", ()),
        ("cloud", ()),
    ]
