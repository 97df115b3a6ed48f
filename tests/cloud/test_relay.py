"""The relay is as slow as it says, and changes nothing."""

from __future__ import annotations

import asyncio
import time

from specdec_cli.cloud.background import Background
from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.serve.relay import Relay
from tests.cloud.serving import linked, serving
from tests.laws.cases import collect, make_case
from tests.laws.test_wire_law import rounded

RTT_MS = 80.0
MBPS = 4.0


def test_a_round_trip_takes_its_time_and_so_do_the_features() -> None:
    case = make_case(93_000, mode="lossless", k=4, max_new_tokens=12)
    assert case.pair.edge is not None
    background = Background("relay")

    async def close(server: asyncio.Server) -> None:
        server.close()

    with serving(case.pair.cloud) as served:  # type: ignore[arg-type]
        relay = Relay("127.0.0.1", served.port, RTT_MS, MBPS)
        server = background.submit(relay.listen("127.0.0.1", 0)).result(20)
        port = server.sockets[0].getsockname()[1]
        with linked(f"http://127.0.0.1:{port}", case.pair.edge) as link:
            started = time.perf_counter()
            link.probe()
            assert time.perf_counter() - started >= 5 * RTT_MS / 1e3
            pair = Pair(case.pair.edge, link, case.pair.vocab_size)
            rounds, end = collect(build_engine(pair, case.options, case.edge_inputs, case.cloud_inputs).run())
        background.close(close(server))
    here = build_engine(case.pair, case.options, case.edge_inputs, rounded(case.cloud_inputs))
    assert (end.token_ids, end.degraded) == (collect(here.run())[1].token_ids, None)
    times = [round_.network_ms for round_ in rounds if round_.network_ms is not None]
    assert min(times) >= RTT_MS
    first = rounds[0].link
    assert first is not None
    assert first.network_ms >= RTT_MS + first.bytes_up * 8 / MBPS / 1e3
