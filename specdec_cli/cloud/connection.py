"""The connections to one server. One thread makes all exchanges, and counts their traffic."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from specdec_cli.cloud.http import MOST_REASON_BYTES, read_token, trusted
from specdec_cli.config import Server
from specdec_cli.errors import CloudError

T = TypeVar("T")


@dataclass(slots=True)
class Traffic:
    """The bytes and the waiting time of exchanges so far."""

    bytes_up: int = 0  # of bodies of requests, repeats included
    bytes_down: int = 0
    waited_s: float = 0.0  # between the end of a request and the head of its answer


class Connection:
    """Connections to a server, for any number of threads. One thread makes all exchanges.

    It takes no proxies from the environment and follows no redirects: requests go to the configured address and nowhere
    else. Raises ConfigError if the token or the certificates cannot be read.
    """

    def __init__(self, config: Server, role: str, content_type: str) -> None:
        self.url = config.url
        headers = {"User-Agent": "specdec", "Content-Type": content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, f"{role}.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.AsyncClient(
            headers=headers,
            verify=trusted(config),
            trust_env=False,
            timeout=None,  # an exchange has one deadline for all that it does
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0),
        )
        self._loop, self._lock = _Loop(), threading.Lock()
        self._thread = threading.Thread(target=_run, args=(self._loop, self._client), name="specdec http", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)  # also if this is dropped

    def close(self) -> None:
        """Ends running exchanges after a second at most, and returns when every connection is closed."""
        with self._lock:
            self._stop()
        self._thread.join()

    def submit(self, exchange: Coroutine[Any, Any, T], limit_s: float) -> Future[T]:
        """Makes an exchange in the connections' thread. The future raises TimeoutError after `limit_s`.

        After `close` the future is cancelled.
        """
        with self._lock:  # an exchange that is submitted before the loop is stopped begins, so `_end` ends it
            if self._stop.alive:
                return asyncio.run_coroutine_threadsafe(asyncio.wait_for(exchange, limit_s), self._loop)
        exchange.close()
        future = Future[T]()
        future.cancel()
        return future

    async def exchange(self, method: str, path: str, body: bytes, traffic: Traffic, most: int) -> tuple[int, bytes]:
        """Sends a request and reads the answer: its status and body.

        No request allows a compressed answer, so nothing is decompressed. Raises CloudError if a good answer has more
        than `most` bytes; the reason of a refusal is cut off at `MOST_REASON_BYTES`.
        """
        opened = list[asyncio.Transport]()
        _opened.set(opened)
        try:
            return await self._exchange(method, path, body, traffic, most)
        except BaseException:
            for transport in opened:  # httpx leaves one open if its connecting or handshake was cancelled
                transport.abort()
            raise

    async def _exchange(self, method: str, path: str, body: bytes, traffic: Traffic, most: int) -> tuple[int, bytes]:
        answer, sent_at = bytearray(), time.perf_counter()

        async def content() -> AsyncIterator[bytes]:
            nonlocal sent_at
            traffic.bytes_up += len(body)
            yield body
            sent_at = time.perf_counter()

        headers = {"Content-Length": str(len(body))}
        async with self._client.stream(method, self.url + path, content=content(), headers=headers) as response:
            traffic.waited_s += time.perf_counter() - sent_at
            most = most if response.is_success else MOST_REASON_BYTES
            async for chunk in response.aiter_raw():
                answer += chunk
                traffic.bytes_down += len(chunk)
                if len(answer) > most and response.is_success:
                    raise CloudError(f"{self.url}: the answer is longer than the {most} bytes that it may have")
                if len(answer) > most:
                    break
        return response.status_code, bytes(answer)


_opened: ContextVar[list[asyncio.Transport]] = ContextVar("opened")  # by the running exchange, and its tasks


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that notes for each exchange the transports that it opens."""

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        made = await super().create_connection(*args, **kwargs)
        _opened.get().append(made[0])
        return made


def _run(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    loop.run_forever()
    loop.run_until_complete(_end(loop, client))
    loop.close()


async def _end(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """Ends the tasks of a loop, then its connections. Running requests, such as to forget a clip, have a second."""
    this = asyncio.current_task()
    if running := asyncio.all_tasks() - {this}:
        await asyncio.wait(running, timeout=1.0)
    while late := asyncio.all_tasks() - {this}:
        for task in late:
            task.cancel()
        await asyncio.wait(late)
        await asyncio.sleep(0)  # an answer that was broken off starts a task that closes its reader
    await client.aclose()
    await loop.shutdown_asyncgens()
    await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next turn
