"""Replays against real runs: where a replay says that it is exact, the run gives the same text and asks as often."""

from __future__ import annotations

import random

import pytest

from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.learned import Classifier
from specdec_cli.tune.replay import replay
from specdec_cli.types import GateName
from tests.laws.cases import collect, learned_weights
from tests.table import table_loop
from tests.tune.recorded import GROUPS, LENGTH, table_pair, trace_of

CASES = 200


def _gate(rng: random.Random) -> tuple[GateName, float]:
    gate: GateName = rng.choice(("entropy", "class-entropy", "margin", "logprob", "learned"))
    spans = {"entropy": (1.2, 2.4), "class-entropy": (0.8, 1.5), "margin": (0.01, 0.2), "logprob": (-2.5, -0.8)}
    spans["learned"] = (0.4, 0.98)
    return gate, round(rng.uniform(*spans[gate]), 3)


@pytest.mark.parametrize("stop", [False, True], ids=["whole blocks", "stopping"])
def test_an_exact_replay_is_what_a_run_does(stop: bool) -> None:
    exact = partly = 0
    for number in range(CASES):
        rng = random.Random(number)
        gate, threshold = _gate(rng)
        k, classifier = rng.randint(1, 6), Classifier(learned_weights(rng), 0.5)
        replayed = replay(trace_of(number), Gate(gate, threshold, stop_drafting=stop, classifier=classifier), k)
        if not replayed.exact:
            continue
        gated = {"gate": gate, "threshold": threshold, "stop_drafting": stop, "classifier": classifier}
        drafted = {"k": k, "groups": GROUPS, "max_new_tokens": LENGTH, "loop_period": 0}
        rounds, finished = collect(table_loop(*table_pair(number), mode="hybrid", **gated, **drafted).run())
        exact += 1
        asked = sum(round_.escalated for round_ in rounds)
        partly += 0 < asked < len(rounds)
        # the budget of tokens cuts the last block of a run, which a recording does not know
        assert replayed.ids[: len(finished.token_ids)] == finished.token_ids, number
        if len(finished.token_ids) < LENGTH:
            assert (replayed.rounds, replayed.escalations) == (len(rounds), asked), number
    assert exact > CASES / 3
    assert partly > 15


def test_the_ends_of_the_scale_are_the_two_models() -> None:
    for number in range(40):
        trace = trace_of(number)
        alone = replay(trace, Gate("never"), 3)
        assert (alone.ids, alone.escalations, alone.exact) == (trace.edge.ids, 0, True)
        always = replay(trace, Gate("always"), 3)
        assert (always.ids, always.rounds, always.exact) == (trace.cloud.ids, always.escalations, True)
