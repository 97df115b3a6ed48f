"""An event loop in a thread of its own, so that a call has a hard deadline and nobody waits who has something to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Runs coroutines in one thread, which ends with the process or with `close`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._closing = False

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._closing

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins `work`; its result or its error will be in the future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancels what is under way, runs `last`, and ends the thread. Nothing if that was done before."""
        if self._closing:
            last.close()
            return
        self._closing = True
        if threading.current_thread() is self._thread:  # the last reference was dropped in here: nobody could wait
            last.close()
            self._loop.call_soon(self._loop.stop)
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(last), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others(last: Coroutine[Any, Any, None]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last
