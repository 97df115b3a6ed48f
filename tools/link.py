"""A cloud behind a link, in this process: the server of `specdec serve` on loopback, and the relay in front of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Final

from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Server
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Processor
from specdec_cli.serve.app import Offer
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import ServerAddress, bind, server
from specdec_cli.serve.verification import Service
from tools.relay import Relay

_START_S: Final = 30


@contextmanager
def linked(cloud: AudioLM, processor: Processor, rtt_ms: float, mbps: float | None = None) -> Iterator[VerifyClient]:
    """A client of `cloud` behind a link.

    Args:
        cloud: the served model; its forwards take as many threads as PyTorch now has.
        processor: the edge's, which makes the prompts.
        rtt_ms: round trip, ms.
        mbps: megabits a second each way; None: as fast as it goes.
    """
    place = ServerAddress("127.0.0.1", 0)
    port: Future[int] = Future()
    with bind(place) as bound:
        running = server(Offer(ServeLimits(), Service(cloud, ServeLimits())), place, None)
        bound.listen()

        async def serve() -> None:
            link = Relay(place.host, bound.getsockname()[1], rtt_ms, mbps)
            relay = await asyncio.start_server(link.serve, place.host, 0)
            port.set_result(relay.sockets[0].getsockname()[1])
            await running.serve([bound])
            relay.close()

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        try:
            url = f"http://{place.host}:{port.result(_START_S)}"
            with closing(VerifyClient(Server(url=url, timeout_s=600), processor, own=False)) as client:
                yield client
        finally:
            running.should_exit = True
            thread.join()
