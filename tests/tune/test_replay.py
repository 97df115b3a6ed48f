"""Replays against real runs: where a replay says that it is exact, the run gives the same text and asks as often."""

import random

from specdec_cli.decoding.gate import Gate
from specdec_cli.tune.replay import Candidate, replay
from specdec_cli.types import GateName
from tests.laws.cases import collect
from tests.laws.tolerance import ENOUGH, cases, numbers
from tests.table import table_loop
from tests.tune.recorded import GROUPS, LENGTH, table_pair, trace_of


def _gate(rng: random.Random) -> tuple[GateName, float]:
    gate: GateName = rng.choice(("entropy", "class-entropy", "margin", "logprob"))
    spans = {"entropy": (1.2, 2.4), "class-entropy": (0.8, 1.5), "margin": (0.01, 0.2), "logprob": (-2.5, -0.8)}
    return gate, round(rng.uniform(*spans[gate]), 3)


def test_an_exact_replay_is_what_a_run_does():
    exact = partly = stopping = 0
    for number in numbers():
        rng, pair = random.Random(number), number // 2  # two settings on each recording
        gate, threshold = _gate(rng)
        k, stop = rng.randint(1, 6), rng.random() < 0.5
        standing = Gate(gate, threshold, stop_drafting=stop)
        replayed = replay(trace_of(pair), standing, k)
        if not replayed.exact:
            continue
        gated = {"gate": gate, "threshold": threshold, "stop_drafting": stop}
        drafted = {"k": k, "groups": GROUPS, "max_new_tokens": LENGTH, "loop_period": 0}
        rounds, finished = collect(table_loop(*table_pair(pair), mode="hybrid", **gated, **drafted).events())
        asked = sum(round_.escalated for round_ in rounds)
        exact += 1
        partly += 0 < asked < len(rounds)
        stopping += stop and asked > 0
        # the budget of tokens cuts the last block of a run, which a recording does not know
        assert replayed.ids[: len(finished.token_ids)] == finished.token_ids, number
        if len(finished.token_ids) < LENGTH:
            assert (replayed.rounds, replayed.escalations) == (len(rounds), asked), number
    if cases() >= ENOUGH:
        assert exact > cases() / 3
        assert partly > 15
        assert stopping > 15


def test_the_ends_of_the_scale_are_the_two_models():
    for number in range(20):
        trace = trace_of(number)
        alone = replay(trace, Gate("never"), 3)
        assert (alone.ids, alone.escalations, alone.exact) == (trace.edge.ids, 0, True)
        always = replay(trace, Gate("always"), 3)
        assert (always.ids, always.rounds, always.exact) == (trace.cloud.ids, always.escalations, True)


def test_no_gate_but_the_random_one_draws():
    draws = set[int]()
    for number in range(20):
        trace = trace_of(number)
        entropy = Candidate("entropy", 1.8, 3)
        gate = Gate("entropy", 1.8, stop_drafting=entropy.stop_drafting)
        assert entropy.replay(trace, seed=0) == replay(trace, gate, 3)
        draws |= {Candidate("random", 0.5, 3).replay(trace, seed).escalations for seed in range(3)}
    assert len(draws) > 2
