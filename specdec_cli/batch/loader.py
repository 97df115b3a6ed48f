"""Threads that read and prepare recordings ahead of the models, with so many seconds of audio in memory and no more."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final

from specdec_cli.batch.in_flight import Prepared
from specdec_cli.batch.tasks import Deliver, Outcome, Stopped, Task

Ready = Prepared | Outcome
"""What a task gives: its segments, or its outcome where nothing needs decoding."""

IN_FLIGHT_S: Final = 240.0
"""Audio that is prepared and waits, seconds: about 30 MB of samples and features."""

_IN_FLIGHT: Final = 2048  # entries, for those that hold no audio
_SIGNAL_S = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


class Loader:
    """Prepares tasks in the background, in no certain order. Use it as a context manager.

    Args:
        tasks: what to prepare; taken by one thread at a time, when there is room.
        prepare: turns a task into what is ready.
        deliver: takes the outcomes of what needs no decoding, in the thread that calls `take`.
        stopped: whether to end; called again and again.
        workers: number of threads.
        in_flight_s: seconds of audio that all threads and what they have prepared hold together.
        most_s: what each thread may hold while it decodes, seconds; one thread goes on where it is above `in_flight_s`.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        prepare: Callable[[Task], Iterator[Ready]],
        deliver: Deliver,
        stopped: Stopped,
        *,
        workers: int,
        in_flight_s: float = IN_FLIGHT_S,
        most_s: float = 0.0,
    ) -> None:
        self._tasks, self._prepare, self._deliver, self._stopped = iter(tasks), prepare, deliver, stopped
        self._limit_s, self._most_s = in_flight_s, most_s
        self._ready: list[tuple[float, int, Ready]] = []  # a heap by length; outcomes come first
        self._order = count()
        self._decoding = 0  # threads that hold audio
        self._audio_s = 0.0  # prepared, and not yet taken
        self._closed = False
        self._error: BaseException | None = None
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._work, name=f"loader-{n}", daemon=True) for n in range(workers)]
        self._working = workers

    def __enter__(self) -> Loader:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the threads; waits for them unless the run is being torn down."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads if kind is None else ():
            thread.join()

    def take(self, *, wait: bool) -> Prepared | None:
        """The shortest clip that is ready, so that none waits for a full window. See `Source`.

        Raises what finding the tasks raised.
        """
        while True:
            with self._changed:
                while wait and not self._ready and self._working and not self._stopped():
                    self._changed.wait(_SIGNAL_S)
                if self._error is not None:
                    raise self._error
                if not self._ready or self._stopped():
                    return None
                seconds, _, ready = heapq.heappop(self._ready)
                self._audio_s -= seconds
                self._changed.notify_all()
            if isinstance(ready, Prepared):
                return ready
            self._deliver(ready)

    def _work(self) -> None:
        try:
            while self._enter() and (task := self._next()) is not None:
                for ready in self._prepare(task):
                    self._put(ready)
                    if not self._enter():
                        return
                self._leave()
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._working -= 1
                self._decoding -= 1  # taken, and nothing came to need it
                self._changed.notify_all()

    def _next(self) -> Task | None:
        with self._turn:
            return next(self._tasks, None)

    def _enter(self) -> bool:
        """Waits for the room that a thread needs, and takes it; returns False once the loader is closed."""
        with self._changed:
            while not self._closed and not self._has_room():
                self._changed.wait()
            self._decoding += 1
            return not self._closed

    def _has_room(self) -> bool:
        held_s = self._audio_s + self._decoding * self._most_s
        fits = held_s + self._most_s <= self._limit_s if self._most_s else held_s < self._limit_s
        return len(self._ready) < _IN_FLIGHT and (fits or held_s == 0)

    def _leave(self) -> None:
        with self._changed:
            self._decoding -= 1
            self._changed.notify_all()

    def _put(self, ready: Ready) -> None:
        seconds = ready.run.clip.duration_s if isinstance(ready, Prepared) else 0.0
        with self._changed:
            self._decoding -= 1
            heapq.heappush(self._ready, (seconds, next(self._order), ready))
            self._audio_s += seconds
            self._changed.notify_all()
