"""The relay is as slow as it says, and changes nothing."""

import time

import pytest

from tests.laws.cases import collect, make_case
from tests.laws.test_wire_law import assert_wire, far_loop
from tools.link import linked

RTT_MS = 80.0
MBPS = 4.0


@pytest.mark.slow
def test_a_round_trip_takes_its_time_and_so_do_the_features():
    case = make_case(93_000, mode="lossless", temperature=0.0, k=4, max_new_tokens=12)
    with linked(case.cloud, case.edge.processor, RTT_MS, MBPS) as link:
        started = time.perf_counter()
        link.probe()
        assert time.perf_counter() - started >= RTT_MS / 1e3
        rounds, end = collect(far_loop(case, link).events())
    assert_wire(case, (rounds, end))
    verdicts = [block.verdict for block in rounds if block.verdict is not None]
    times = [verdict.network_ms for verdict in verdicts if verdict.network_ms is not None]
    assert min(times) >= RTT_MS
    assert verdicts[0].bytes_up is not None
    assert times[0] >= RTT_MS + verdicts[0].bytes_up * 8 / MBPS / 1e3
