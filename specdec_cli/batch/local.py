"""A batch on this machine: threads that read and prepare recordings, and one loaded pair that decodes many clips."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from specdec_cli.batch.in_flight import BatchCaptioner, Prepared, Ready
from specdec_cli.batch.tasks import Outcome, Stopped, Task
from specdec_cli.errors import typed

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

_log = logging.getLogger(__name__)

MOST_READY: Final = 32
"""Clips that are prepared and wait, each at most one window of samples and features: some 100 MB at 30 s."""

_SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


class LocalBackend:
    """Captions tasks with one captioner.

    Args:
        captioner: the loaded models.
        batch_size, in_flight: see `BatchCaptioner`.
        workers: threads that read ahead.
    """

    def __init__(
        self, captioner: Captioner, *, batch_size: int | None, workers: int, in_flight: int | None = None
    ) -> None:
        self.setup, self._workers, self._prepare = captioner.setup, workers, partial(prepare, captioner)
        self._captioner = BatchCaptioner(captioner, batch_size, in_flight)

    def run(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`. Tasks are taken in threads of its own."""
        with Loader(tasks, self._prepare, stopped, workers=self._workers) as loader:
            yield from self._captioner.run(loader.take)


class Loader:
    """Prepares tasks in the background, in no certain order. Use it as a context manager.

    Args:
        tasks, stopped: see `Backend`; tasks are taken by one thread at a time.
        prepare: turns a task into what is ready, of which at most `MOST_READY` wait, and one more in each thread.
        workers: number of threads.
    """

    def __init__(
        self, tasks: Iterable[Task], prepare: Callable[[Task], Iterator[Ready]], stopped: Stopped, *, workers: int
    ) -> None:
        self._tasks, self._prepare, self._stopped = iter(tasks), prepare, stopped
        # None: a thread has ended. When it is closed, all threads have room for the rest of what they have
        self._ready = queue.Queue[Ready | BaseException | None](max(MOST_READY, 2 * workers))
        self._closed, self._turn, self._working = False, threading.Lock(), workers
        self._threads = [threading.Thread(target=self._work, name=f"loader-{n}", daemon=True) for n in range(workers)]

    def __enter__(self) -> Loader:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the threads; waits for them unless the run is being torn down."""
        self._closed = True
        while not self._ready.empty() or (kind is None and any(thread.is_alive() for thread in self._threads)):
            with suppress(queue.Empty):
                self._ready.get(timeout=_SIGNAL_S)

    def take(self, *, wait: bool) -> Ready | None:
        """What is ready next; see `Take`. Raises what finding the tasks raised."""
        while self._working and not self._stopped():
            try:
                ready = self._ready.get(wait, _SIGNAL_S)
            except queue.Empty:
                if wait:
                    continue
                return None
            if isinstance(ready, BaseException):
                raise ready
            if ready is not None:
                return ready
            self._working -= 1
        return None

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            while (task := self._next()) is not None:
                for ready in self._prepare(task):
                    self._ready.put(ready)
                    if self._closed:
                        return
        except BaseException as error:
            end = error
        finally:
            self._ready.put(end)

    def _next(self) -> Task | None:
        with self._turn:
            return None if self._closed else next(self._tasks, None)


def prepare(captioner: Captioner, task: Task) -> Iterator[Ready]:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    It is called from several threads at once. Raises nothing: whatever is wrong with a recording is its outcome.
    """
    item, entry, begun = task.item, task.entry, 0
    outcome = Outcome(item)
    try:
        recording = None if task.done else captioner.recording(item)
        skip = entry.found_in(recording) if recording else frozenset[int]()
        if recording is None or len(skip) == len(recording.cuts):
            yield outcome
            return
        outcome = Outcome(item, of=len(recording.cuts) - len(skip), captioned=bool(skip) and entry.captioned)
        for run in captioner.runs_of(recording, item, skip):
            begun += 1
            yield Prepared(outcome, run)
    except Exception as unforeseen:
        line = captioner.error_line(item, typed(unforeseen, _log))
        # with pieces begun, the file changed between the two passes over it
        yield replace(outcome, line=line, pieces=outcome.of - begun)
