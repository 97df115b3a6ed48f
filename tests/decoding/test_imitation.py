"""Links and step costs that are imitated take at least the time they stand for, and say that they are simulated."""

from __future__ import annotations

import time
from typing import Any

import pytest

from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.imitation import Imitation, prompt_bytes
from specdec_cli.decoding.threaded import ThreadedVerifier
from specdec_cli.simulated import simulation
from specdec_cli.types import Finished, Round
from tests.laws.cases import Case, collect, make_case


def run(case: Case) -> tuple[list[Round], Finished, float]:
    """Rounds, end and wall time in milliseconds."""
    engine = build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)
    started = time.perf_counter()
    rounds, finished = collect(engine.run())
    return rounds, finished, (time.perf_counter() - started) * 1e3


def test_a_message_takes_half_of_the_round_trip_and_its_own_length() -> None:
    assert Imitation(rtt_ms=50).one_way_s(10**6) == 0.025
    assert Imitation(mbps=8).one_way_s(10**6) == 1.0
    assert Imitation(rtt_ms=50, mbps=8).one_way_s(10**6) == 1.025
    assert Imitation().one_way_s(10**9) == 0


def test_only_a_link_is_a_link() -> None:
    assert not Imitation().is_any
    assert Imitation(edge_step_ms=3).is_any
    assert not Imitation(edge_step_ms=3).has_link
    assert Imitation(rtt_ms=0).has_link


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "cloud"])
def test_every_exchange_takes_a_round_trip(mode: Any) -> None:
    case = make_case(91_001, mode=mode, gate="always", imitation=Imitation(rtt_ms=30), max_new_tokens=18)
    rounds, finished, wall_ms = run(case)
    assert rounds
    for round_ in rounds:
        assert round_.link is not None
        assert round_.link.simulated
        assert round_.network_ms is not None
        assert round_.network_ms >= 30
    assert wall_ms >= finished.total_ms >= 30 * len(rounds)


def test_the_prompt_travels_once() -> None:
    case = make_case(91_002, mode="lossless", max_new_tokens=18, min_new_tokens=18, loop_period=0)
    size = prompt_bytes(case.cloud_inputs)
    mbps = size * 8 / 1e6 / 0.1  # a tenth of a second for the prompt
    rounds, _, _ = run(
        make_case(
            91_002, mode="lossless", max_new_tokens=18, min_new_tokens=18, loop_period=0, imitation=Imitation(mbps=mbps)
        )
    )
    assert len(rounds) > 1
    network = [round_.network_ms or 0.0 for round_ in rounds]
    assert network[0] >= 100
    assert min(network[1:]) < 100


def test_steps_take_their_imitated_time() -> None:
    imitation = Imitation(edge_step_ms=7, cloud_step_ms=11)
    case = make_case(91_003, mode="lossless", imitation=imitation, draft_ahead="off", max_new_tokens=8)
    rounds, finished, _ = run(case)
    assert finished.edge is not None
    assert finished.cloud is not None
    assert finished.edge.step_ms + finished.edge.prefill_ms >= 7 * finished.edge.forwards
    assert finished.cloud.step_ms + finished.cloud.prefill_ms >= 11 * finished.cloud.forwards
    assert all(round_.link is None for round_ in rounds)


def test_drafting_is_hidden_in_the_flight() -> None:
    """The edge's own copy as cloud: every guess is right, so all that fits into the flights is hidden."""
    hidden = network = 0.0
    for number in range(91_100, 91_110):
        case = make_case(
            number, mode="lossless", k=2, max_new_tokens=18, loop_period=0, draft_ahead="on",
            imitation=Imitation(rtt_ms=60, edge_step_ms=5),
        )  # fmt: skip
        rounds, _, _ = run(case)
        hidden += sum(round_.hidden_ms or 0.0 for round_ in rounds)
        network += sum(round_.network_ms or 0.0 for round_ in rounds)
        assert all((round_.hidden_ms or 0.0) >= 0 for round_ in rounds)
    assert hidden > 20
    assert hidden < network


def test_a_cloud_is_beside_the_edge_only_where_that_is_wanted() -> None:
    def threaded(**options: Any) -> bool:
        case = make_case(91_004, mode="hybrid", **options)
        engine = build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)
        return isinstance(engine._cloud._verifier, ThreadedVerifier)

    assert not threaded()
    assert not threaded(imitation=Imitation(cloud_step_ms=3))
    assert threaded(draft_ahead="on")
    assert threaded(cloud_prefill="overlap")
    assert threaded(imitation=Imitation(rtt_ms=0))


def test_what_is_imitated_is_said() -> None:
    assert simulation({"k": 5}) is None
    said = simulation({"simulated_rtt_ms": 50.0, "simulated_edge_step_ms": 48.0})
    assert said == "a round trip of 50 ms, edge steps of 48 ms"
