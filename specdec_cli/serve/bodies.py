"""The bodies of requests, read within a budget of memory, and the way of results from a thread to the event loop.

Whatever a request waits for, it learns of the server's end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from specdec_cli.serve.api_error import ApiError
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


class Ending:
    """The end of a server: what requests wait for ends with it. For the event loop alone."""

    def __init__(self) -> None:
        self.begun, self._over = False, False
        self._waits = dict[asyncio.Timeout, Callable[[], bool]]()

    @asynccontextmanager
    async def wait(
        self, seconds: float, late: HTTPException, begins: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[None]:
        """Within the block a request waits: raises `late` after `seconds`, and ApiError when the server ends.

        `begins`: asked when the end begins, whether nothing was done for the request yet; then it waits no longer.
        """
        try:
            async with asyncio.timeout(0 if self._over else seconds) as limit:
                self._waits[limit] = begins
                try:
                    yield
                finally:
                    del self._waits[limit]
        except TimeoutError:
            raise (shutting_down() if self.begun else late) from None

    def begin(self) -> None:
        """Ends the waits of the requests for which nothing was done yet, and lets others go on."""
        self.begun = True
        self._end(limit for limit, begins in self._waits.items() if begins())

    def finish(self) -> None:
        """Ends all waits."""
        self._over = True
        self._end(self._waits)

    def _end(self, limits: Iterable[asyncio.Timeout]) -> None:
        for limit in list(limits):
            limit.reschedule(asyncio.get_running_loop().time())


def shutting_down() -> ApiError:
    """The error of a request that the end of the server ends."""
    return ApiError(503, "The server is shutting down.", code="shutting_down", headers={"Retry-After": "1"})


class Bodies:
    """Reads the bodies of requests within a budget of memory, until the server ends."""

    def __init__(self, limits: ServeLimits) -> None:
        self.limits, self.ending, self._lock = limits, Ending(), threading.Lock()
        self.held = 0  # bytes

    def add(self, size: int) -> int:
        """Counts `size` more bytes, fewer if it is negative; returns how many are held. Any thread may call it."""
        with self._lock:
            self.held += size
            return self.held

    async def read(self, request: Request) -> Body:
        """The body of a request. Raises HTTPException if it is packed, too large or too slow."""
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            head = {"Accept-Encoding": "identity"}
            raise HTTPException(415, f"a body in {coding[:40]} is not unpacked: send it as it is", head)
        body, parts = Body(self), list[bytes]()
        late = HTTPException(408, f"the body did not arrive within {self.limits.body_s:g} s")
        try:
            async with self.ending.wait(self.limits.body_s, late):
                async for part in request.stream():
                    parts.append(part)
                    body.add(len(part))
        except BaseException:
            body.release()
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
    raises, ClientDisconnect if the client leaves, and HTTPException if no result comes for `limit_s` seconds or the
    server ends.
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
        if not left.is_set():  # else nobody gets it, and the queue would keep it
            put(shutting_down() if done.cancelled() else done.exception())

    try:
        if bodies.ending.begun:
            raise shutting_down()
        future = submit(run)
    except BaseException:
        body.release()
        raise
    future.add_done_callback(ended)
    leaving = asyncio.create_task(_departure(request))
    leaving.add_done_callback(lambda _: queue.put_nowait(ClientDisconnect()))
    late = HTTPException(503, f"the model did not answer within {limit_s:g} s")
    try:
        while True:
            async with bodies.ending.wait(limit_s, late, future.cancel):
                result = await queue.get()
            if result is None:
                return
            if isinstance(result, BaseException):
                try:
                    raise result
                finally:
                    del result
            yield result
    finally:
        left.set()
        leaving.cancel()
        future.cancel()
        # an error has this frame in its traceback: as long as the frame has the error, their memory waits for the
        # garbage collector, with the recording and all that was made of it
        del future, leaving


async def _departure(request: Request) -> None:
    """Waits until the client of a request, whose body was read, closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
