"""Captioning many clips at a time from this machine, by a loaded or a remote pair."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.preparing import Prepared, prepare
from specdec_cli.captioning.read_ahead import SIGNAL_S, ReadAhead, Take
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.errors import as_specdec_error

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.models.engine import Engine

_log = logging.getLogger(__name__)

AUTO_BATCH_SIZE: Final = 16  # clips decoded together by a loaded pair by default
MOST_IN_FLIGHT: Final = 256  # clips under way at servers by default, at most
_FIRST: Final = 4  # under way until one is done, so that a first caption is soon there
_LOOK_S: Final = 0.01  # between two looks for another clip that is ready


class BatchBackend:
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
        self.shared, self._pair, self._workers = captioner.shared, captioner.pair, workers
        self._prepare = partial(prepare, captioner)
        self.pace = Pace((batch_size or AUTO_BATCH_SIZE) if self._pair.loaded else in_flight)

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`. Tasks are taken in threads of its own."""
        with ReadAhead(tasks, self._prepare, stopped, workers=self._workers) as ahead:
            yield from self.decode(ahead.take, stopped)

    def decode(self, take: Take, stopped: Stopped = lambda: False) -> Generator[Outcome]:
        """The outcome of each clip, in order of finishing; closing the generator ends all that is under way.

        What `stopped` raises ends it, too. A clip is taken when another one is done; it waits for one only while there
        is nothing to decode.
        """
        results: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        under_way = 0
        with ExitStack() as stack:  # the models leave first, which ends clips under way, and then the threads
            pool, engine = self._enter(stack)
            try:
                while True:
                    stopped()
                    while under_way < self.pace.room and (ready := take(wait=not under_way)) is not None:
                        if isinstance(ready, Outcome):
                            yield ready
                        else:
                            pool.submit(_caption, ready, engine, results)
                            under_way += 1
                    if not under_way:
                        return
                    try:
                        outcome = results.get(timeout=SIGNAL_S if under_way >= self.pace.room else _LOOK_S)
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


def _caption(clip: Prepared, engine: Engine | None, results: queue.SimpleQueue[Outcome]) -> None:
    """One clip from beginning to end, in its own thread."""
    try:
        with nullcontext() if engine is None else engine.clip():
            line = clip.run.finish(engine)
    except BaseException as error:  # a panic of an extension is no Exception, and `decode` waits for every clip
        line = clip.run.failed(as_specdec_error(error, _log))
    results.put(replace(clip.outcome, line=line))


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
