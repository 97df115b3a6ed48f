"""The bodies of requests, read within a budget of memory, and the way of results from a thread to the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from specdec_cli.serve.limits import ServeLimits

T = TypeVar("T")
Submit = Callable[[Callable[[], None]], "Future[None]"]
"""Runs a function in a thread. Raises HTTPException if no thread may be used."""


def require_client(left: threading.Event) -> None:
    """Raises ClientDisconnect if `left` is set: the client of a request is gone, and its work is for nobody."""
    if left.is_set():
        raise ClientDisconnect


class Body:
    """The body of a request; with what the request fetches, it counts towards the budget of all until `release`."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._size, self.content = bodies, 0, b""
        self.came = time.perf_counter()  # when the whole body had arrived

    def add(self, size: int) -> None:
        """Counts `size` more bytes. Raises HTTPException if they are too many."""
        self._size += size
        held, limits = self._bodies.add(size), self._bodies.limits
        if self._size > limits.body_bytes:
            raise HTTPException(413, f"a body may have {limits.body_bytes} bytes, with the recording that it names")
        if held > limits.bodies_bytes:
            raise HTTPException(503, "the server holds as many bodies of requests as it may")

    def release(self) -> None:
        """Drops the content, which no longer counts towards the budget."""
        self._bodies.add(-self._size)
        self._size, self.content = 0, b""


class Bodies:
    """Reads the bodies of requests within a budget of memory. Any thread may use it."""

    def __init__(self, limits: ServeLimits) -> None:
        self.limits, self._lock = limits, threading.Lock()
        self.held = 0  # bytes

    def add(self, size: int) -> int:
        """Counts `size` more bytes, fewer if it is negative; returns how many are held."""
        with self._lock:
            self.held += size
            return self.held

    async def read(self, request: Request) -> Body:
        """The body of a request. Raises HTTPException if it is packed, too large or too slow."""
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            head = {"Accept-Encoding": "identity"}
            raise HTTPException(415, f"a body in {coding[:40]} is not unpacked: send it as it is", head)
        body, parts = Body(self), list[bytes]()
        try:
            async with asyncio.timeout(self.limits.body_s):
                async for part in request.stream():
                    parts.append(part)
                    body.add(len(part))
        except BaseException as error:
            body.release()
            if isinstance(error, TimeoutError):
                raise HTTPException(408, f"the body did not arrive within {self.limits.body_s:g} s") from None
            raise
        body.content, body.came = b"".join(parts), time.perf_counter()
        return body


async def results(
    request: Request,
    bodies: Bodies,
    submit: Submit,
    work: Callable[[Body, threading.Event], Iterable[T]],
    limit_s: float,
) -> AsyncGenerator[T]:
    """Yields the results of `work` on a request, which a thread of `submit` yields one after the other.

    `work` is given the body, and an event that is set when the client leaves or this generator is closed: then no
    further forward is to be made. The body counts towards the budget until the thread has ended. Raises what `work`
    raises, ClientDisconnect if the client leaves, and HTTPException if no result comes for `limit_s` seconds.
    """
    body, left = await bodies.read(request), threading.Event()
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[T | BaseException | None]()

    def put(result: T | BaseException | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, result)

    def run() -> None:
        for each in work(body, left):
            put(each)

    def ended(done: Future[None]) -> None:
        body.release()
        put(ClientDisconnect() if done.cancelled() else done.exception())

    try:
        future = submit(run)
    except BaseException:
        body.release()
        raise
    future.add_done_callback(ended)
    leaving = asyncio.create_task(_departure(request))
    leaving.add_done_callback(lambda _: queue.put_nowait(ClientDisconnect()))
    try:
        while True:
            async with asyncio.timeout(limit_s):
                result = await queue.get()
            if result is None:
                return
            if isinstance(result, BaseException):
                raise result
            yield result
    except TimeoutError:
        raise HTTPException(503, f"the model did not answer within {limit_s:g} s") from None
    finally:
        left.set()
        leaving.cancel()
        future.cancel()


async def _departure(request: Request) -> None:
    """Waits until the client of a request, whose body was read, closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
