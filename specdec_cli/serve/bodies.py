"""Awaitables of a request: its body, its work in threads, and its client's leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from specdec_cli.serve.limits import ServeLimits

T = TypeVar("T")


class Body:
    """The body of a request. Its size is part of the size of all bodies until `release`."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._size, self.content = bodies, 0, bytearray()

    def count(self, size: int) -> None:
        """Reserves `size` bytes in place of those so far. Raises HTTPException if they are too many."""
        self._bodies.held += size - self._size
        self._size = size
        limits = self._bodies.limits
        if size > limits.body_bytes:
            raise HTTPException(413, f"a body may have {limits.body_bytes} bytes")
        if self._bodies.held > limits.bodies_bytes:
            raise HTTPException(503, "the server holds as many bodies of requests as it may", {"Retry-After": "1"})

    def release(self) -> None:
        """Drops the content."""
        self.content = bytearray()
        self.count(0)


class Bodies:
    """Reads the bodies of requests within a budget of memory. Used in the event loop only."""

    def __init__(self, limits: ServeLimits) -> None:
        self.limits, self.held = limits, 0  # bytes

    async def read(self, request: Request) -> Body:
        """The body of a request. Raises HTTPException if it is packed, too large or too slow."""
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            head = {"Accept-Encoding": "identity"}
            raise HTTPException(415, f"a body in {coding[:40]} is not unpacked: send it as it is", head)
        body = Body(self)
        try:
            async with asyncio.timeout(self.limits.body_s):
                async for part in request.stream():
                    body.content += part
                    body.count(len(body.content))
        except BaseException as error:
            body.release()
            if isinstance(error, TimeoutError):
                raise HTTPException(408, f"the body did not arrive within {self.limits.body_s:g} s") from None
            raise
        return body


@asynccontextmanager
async def while_connected(request: Request) -> AsyncIterator[None]:
    """Cancels the block if the client leaves, once the body was read; ClientDisconnect is raised when it has ended."""
    block, is_gone = asyncio.current_task(), False
    assert block is not None

    async def watch() -> None:
        nonlocal is_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        block.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if is_gone:
            block.uncancel()
            raise ClientDisconnect from None
        raise
    finally:
        watching.cancel()


async def in_thread(pool: Executor, work: Callable[[], T], stop: Callable[[], object]) -> T:
    """The result of `work` in a thread. A caller that is cancelled calls `stop`, and waits for the thread's end.

    So whatever a request holds can be given back when its coroutine ends.
    """
    future = pool.submit(work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        await _end(future, stop)
        raise
    finally:
        # an error has this frame in its traceback: as long as the frame has the error, their memory waits for the
        # garbage collector, with the recording and all that was made of it
        del future


async def each_in_thread(
    pool: Executor, work: Callable[[], Iterable[T]], stop: Callable[[], object]
) -> AsyncGenerator[T]:
    """What `work` yields in a thread, however soon it is read; see `in_thread`."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[T, ...]]()

    def run() -> None:
        for each in work():
            loop.call_soon_threadsafe(queue.put_nowait, (each,))

    future = pool.submit(run)
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(queue.put_nowait, ()))
    try:
        while found := await queue.get():
            yield found[0]
        future.result()
    except (asyncio.CancelledError, GeneratorExit):
        await _end(future, stop)
        raise
    finally:
        del future


async def _end(future: Future[T], stop: Callable[[], object]) -> None:
    """Ends the work of a thread, and waits for its end."""
    stop()
    if not future.cancel():
        running = asyncio.wrap_future(future)
        await asyncio.wait({running})
        running.exception()  # no other request uses it
