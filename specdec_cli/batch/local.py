"""Captioning from this machine: many clips at a time, by a loaded or a remote pair, or one by one in a live view."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.batch.output_file import Task
from specdec_cli.batch.tasks import Outcome, Stopped
from specdec_cli.errors import typed
from specdec_cli.transcript.updates import Update

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.models.engine import Engine
    from specdec_cli.run import Run

_log = logging.getLogger(__name__)

AUTO_BATCH_SIZE: Final = 16  # clips decoded together by a loaded pair by default
MOST_IN_FLIGHT: Final = 256  # clips under way at servers by default, at most
MOST_READY_S: Final = 480
"""Audio that is prepared and waits, seconds, whatever a model's window is: some 55 MB of samples and features."""

_FIRST: Final = 4  # under way until one is done, so that a first caption is soon there
_LOOK_S: Final = 0.01  # between two looks for another clip that is ready
_SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding, and its outcome without the line."""

    outcome: Outcome
    run: Run


Ready = Prepared | Outcome
"""What is prepared of a task: a clip, or its outcome if nothing needs decoding."""


Show = Callable[[Update], None]


class Take(Protocol):
    """Returns what is ready next; None if nothing is ready, or with `wait` if nothing will be."""

    def __call__(self, *, wait: bool) -> Ready | None: ...


class LocalBackend:
    """Captions tasks with one captioner, several clips at a time, each in a thread; batching never changes a caption.

    A forward of loaded models serves several clips; a transcript counts its share of the time, by the tokens that its
    clip fed. `ttft_ms` and `total_ms` run by the clock from when the clip is begun, so they contain other clips' work
    and do not add up to the time of the batch. `cpu_percent` is null.

    Args:
        captioner: the models.
        batch_size: clips that a loaded pair decodes together; None: `AUTO_BATCH_SIZE`.
        workers: threads that read ahead.
        in_flight: clips under way at two remote models; None: see `Pace`.
    """

    def __init__(
        self, captioner: Captioner, *, batch_size: int | None, workers: int = 1, in_flight: int | None = None
    ) -> None:
        self.setup, self._pair, self._workers = captioner.setup, captioner.pair, workers
        self._prepare = partial(prepare, captioner)
        self.pace = Pace((batch_size or AUTO_BATCH_SIZE) if self._pair.loaded else in_flight)

    def run(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`. Tasks are taken in threads of its own."""
        with Loader(tasks, self._prepare, stopped, workers=self._workers) as loader:
            yield from self.decode(loader.take, stopped)

    def decode(self, take: Take, stopped: Stopped = lambda: False) -> Generator[Outcome]:
        """The outcome of each clip, in order of finishing; closing the generator ends all that is under way.

        What `stopped` raises ends it, too. A clip is taken when another one is done; it waits for one only while there
        is nothing to decode.
        """
        results: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        under_way = 0
        with ExitStack() as stack:  # the models leave first, which ends clips under way, and then the threads
            pool, shared = self._enter(stack)
            try:
                while True:
                    stopped()
                    while under_way < self.pace.room and (ready := take(wait=not under_way)) is not None:
                        if isinstance(ready, Outcome):
                            yield ready
                        else:
                            pool.submit(_caption, ready, shared, results)
                            under_way += 1
                    if not under_way:
                        return
                    try:
                        outcome = results.get(timeout=_SIGNAL_S if under_way >= self.pace.room else _LOOK_S)
                    except queue.Empty:
                        continue
                    under_way -= 1
                    self.pace.done()
                    yield outcome
            finally:
                for remote in self._pair.remotes if under_way else ():
                    remote.end_calls()

    def _enter(self, stack: ExitStack) -> tuple[ThreadPoolExecutor, Engine | None]:
        """Threads for the clips, and what makes the forwards of loaded models."""
        models = self._pair.loaded
        if not models:
            return stack.enter_context(ThreadPoolExecutor(self.pace.most, "specdec clip")), None
        import torch

        from specdec_cli.models.engine import Engine, encoders_and_threads

        encoders, threads = encoders_and_threads(models)
        # the number of PyTorch's threads counts for the thread that sets it alone
        pool = ThreadPoolExecutor(self.pace.most, "specdec clip", torch.set_num_threads, (threads,))
        return stack.enter_context(pool), stack.enter_context(Engine(models, self.pace.most, encoders, threads))


def _caption(clip: Prepared, shared: Engine | None, results: queue.SimpleQueue[Outcome]) -> None:
    """One clip from beginning to end, in its own thread."""
    try:
        with nullcontext() if shared is None else shared.clip():
            line = clip.run.finish(shared)
    except BaseException as error:  # a panic of an extension is no Exception, and `run` waits for every clip
        line = clip.run.failed(typed(error, _log))
    results.put(replace(clip.outcome, line=line))


class WatchedBackend:
    """Captions tasks one after the other, in the thread that asks for them; `show` gets every update."""

    def __init__(self, captioner: Captioner, show: Show) -> None:
        self.setup, self._captioner, self._show = captioner.setup, captioner, show

    def run(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`."""
        for task in tasks:
            if stopped():
                return
            for ready in prepare(self._captioner, task):
                yield ready if isinstance(ready, Outcome) else watched(ready, self._show)


def watched(clip: Prepared, show: Show) -> Outcome:
    """Captions a clip and shows its updates. Raises nothing: an error is in the outcome."""
    try:
        for update in clip.run:
            show(update)
        return replace(clip.outcome, line=clip.run.finish())
    except Exception as unforeseen:
        error = typed(unforeseen)
        return replace(clip.outcome, line=clip.run.failed(error), error=error)


class Pace:
    """How many clips are under way: a fixed number, or a number that doubles as long as servers get faster by it.

    After each change the clips under way are not counted; the rate, clips a second, is that of three times as many
    after them. If it is less than a tenth higher than before, the number before stays.
    """

    def __init__(self, fixed: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.room, self.most = min(fixed or _FIRST, _FIRST), fixed or MOST_IN_FLIGHT
        self._clock, self._settled, self._best, self._done, self._since = clock, fixed, 0.0, 0, 0.0

    def done(self) -> None:
        """Another clip has its caption."""
        if self._settled is not None:
            self.room = self._settled
            return
        self._done += 1
        if self._done == self.room:
            self._since = self._clock()
        elif self._done == 4 * self.room:
            rate = 3 * self.room / max(self._clock() - self._since, 1e-9)
            faster, self._best, self._done = rate >= 1.1 * self._best, rate, 0
            if not faster or self.room == self.most:
                self._settled = self.room if faster else self.room // 2
            self.room = self._settled or 2 * self.room


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
                ready = self._ready.get(wait, _SIGNAL_S)
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
        error = typed(unforeseen, _log)
        # an error behind the first piece: the file changed between the two passes over it
        yield replace(outcome, line=captioner.setup.error_line(item, error), pieces=outcome.of - begun, error=error)
