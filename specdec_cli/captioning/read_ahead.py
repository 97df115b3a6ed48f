"""Preparing recordings in background threads, while others are decoded."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from specdec_cli import interrupts
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.preparing import Prepared, Ready
from specdec_cli.captioning.tasks import Stopped

MOST_READY_S: Final = 480
"""Audio that is prepared and waits, seconds, whatever a model's window is: some 55 MB of samples and features."""

SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


class Take(Protocol):
    """Returns what is ready next; None if nothing is ready, or with `wait` if nothing will be."""

    def __call__(self, *, wait: bool) -> Ready | None: ...


class ReadAhead:
    """Prepares tasks in background threads, in no certain order. A context manager.

    Args:
        tasks, stopped: see `Backend`; tasks are taken by one thread at a time.
        prepare: prepares a task; at most `MOST_READY_S` of audio wait, and one clip more for each thread.
        workers: number of threads.
    """

    def __init__(
        self, tasks: Iterable[Task], prepare: Callable[[Task], Iterator[Ready]], stopped: Stopped, *, workers: int
    ) -> None:
        self._tasks, self._prepare, self._stopped = iter(tasks), prepare, stopped
        self._ready: queue.SimpleQueue[Ready | BaseException | None] = queue.SimpleQueue()  # None: a thread has ended
        self._room, self._waiting_s = threading.Condition(), 0.0
        self._closed, self._turn, self._working = False, threading.Lock(), workers
        self._threads = [threading.Thread(target=self._work, name=f"ahead-{n}", daemon=True) for n in range(workers)]

    def __enter__(self) -> ReadAhead:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the threads; waits for them unless the run is being torn down."""
        self._closed = True
        self._wait_more(0.0)
        for thread in self._threads if kind is None else ():
            thread.join()

    def take(self, *, wait: bool) -> Ready | None:
        """What is ready next; see `Take`. Raises what finding the tasks raised."""
        while self._working and not self._stopped():
            try:
                ready = self._ready.get(wait, SIGNAL_S)
            except queue.Empty:
                if wait:
                    continue
                return None
            if isinstance(ready, BaseException):
                interrupts.check()  # a signal may have ended the thread, and ends the command here
                raise ready
            if ready is not None:
                self._wait_more(-_counted_s(ready))
                return ready
            self._working -= 1
        return None

    def _wait_more(self, seconds: float) -> None:
        """Adds to the audio that waits to be taken, seconds."""
        with self._room:
            self._waiting_s += seconds
            self._room.notify_all()

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            while (task := self._next()) is not None:
                for ready in self._prepare(task):
                    with self._room:
                        self._room.wait_for(lambda: self._closed or self._waiting_s < MOST_READY_S)
                        self._waiting_s += _counted_s(ready)
                    if self._closed:
                        return
                    self._ready.put(ready)
        except BaseException as error:
            end = error
        finally:
            self._ready.put(end)

    def _next(self) -> Task | None:
        with self._turn:
            return None if self._closed else next(self._tasks, None)


def _counted_s(ready: Ready) -> float:
    """The seconds that it counts while it waits: the length of its clip, at least 1."""
    return max(ready.run.started.duration_s, 1.0) if isinstance(ready, Prepared) else 1.0
