"""Preparing clips, for a batch in background threads.

Recordings are read, compared with an output, cut, and turned into prompts.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.errors import as_specdec_error

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run

_log = logging.getLogger(__name__)

MOST_READY_S: Final = 480
"""Audio that is prepared and waits, seconds, whatever a model's window is: some 55 MB of samples and features."""

SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding, and its outcome without the line."""

    outcome: Outcome
    run: Run


Ready = Prepared | Outcome
"""What is prepared of a task: a clip, or its outcome if nothing needs decoding."""


class Take(Protocol):
    """Returns what is ready next; None if nothing is ready, or with `wait` if nothing will be."""

    def __call__(self, *, wait: bool) -> Ready | None: ...


class Loader:
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
        self._threads = [threading.Thread(target=self._work, name=f"loader-{n}", daemon=True) for n in range(workers)]

    def __enter__(self) -> Loader:
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
    return max(ready.run.clip.duration_s, 1.0) if isinstance(ready, Prepared) else 1.0


def prepare(captioner: Captioner, task: Task) -> Iterator[Ready]:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    Several threads call it at once. Raises nothing: an error is in the outcome of its recording.
    """
    item, begun = task.item, 0
    outcome = Outcome(item)
    try:
        recording = None if task.done else captioner.recording(item)
        skip = task.found_in(recording) if recording else frozenset[int]()
        if recording is None or len(skip) == len(recording.cuts):
            yield replace(outcome, captioned=task.captioned)
            return
        cuts = [cut for number, cut in enumerate(recording.cuts) if number not in skip]
        length_s = sum(cut.end_s - cut.start_s for cut in cuts)
        outcome = Outcome(item, of=len(cuts), of_s=length_s, captioned=bool(skip) and task.captioned)
        for run in captioner.runs_of(recording, item, skip):
            begun += 1
            yield Prepared(outcome, run)
    except Exception as unforeseen:
        error = as_specdec_error(unforeseen, _log)
        # an error behind the first piece: the file changed between the two passes over it
        yield replace(outcome, line=captioner.shared.error_line(item, error), pieces=outcome.of - begun, error=error)
