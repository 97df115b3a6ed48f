"""The relay is as slow as it says, and changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from specdec_cli.serve.relay import Relay
from tests.cloud.serving import linked, serving
from tests.laws.cases import collect, make_case
from tests.laws.test_wire_law import assert_wire, far_loop

RTT_MS = 80.0
MBPS = 4.0


@contextmanager
def relaying(target: int) -> Iterator[int]:
    """A relay to a port of this machine, in a thread; yields its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(Relay("127.0.0.1", target, RTT_MS, MBPS).listen("127.0.0.1", 0), loop)
    server = listening.result(20)

    async def end() -> None:
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def test_a_round_trip_takes_its_time_and_so_do_the_features() -> None:
    case = make_case(93_000, mode="lossless", temperature=0.0, k=4, max_new_tokens=12)
    with (
        serving(case.cloud) as served,
        relaying(served.port) as port,
        linked(f"http://127.0.0.1:{port}", case.edge) as link,
    ):
        started = time.perf_counter()
        link.probe()
        assert time.perf_counter() - started >= 5 * RTT_MS / 1e3
        rounds, end = collect(far_loop(case, link).run())
    assert_wire(case, (rounds, end))
    times = [round_.network_ms for round_ in rounds if round_.network_ms is not None]
    assert min(times) >= RTT_MS
    assert rounds[0].bytes_up is not None
    assert times[0] >= RTT_MS + rounds[0].bytes_up * 8 / MBPS / 1e3
