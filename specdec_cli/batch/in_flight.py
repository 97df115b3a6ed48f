"""Many prepared clips at a time through one pair, whose models are loaded here or served elsewhere."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.batch.tasks import Outcome
from specdec_cli.captioner import Captioner
from specdec_cli.errors import typed
from specdec_cli.run import Run

if TYPE_CHECKING:
    from specdec_cli.models.shared import Shared

_log = logging.getLogger(__name__)

AUTO_BATCH_SIZE: Final = 16  # clips decoded together by a loaded pair by default
MOST_IN_FLIGHT: Final = 256  # clips under way at servers by default, at most
_FIRST: Final = 4  # under way until one is done, so that a first caption is soon there
_LOOK_S: Final = 0.01  # between two looks for another clip that is ready
_SIGNAL_S: Final = 0.2  # how long a wait may keep the main thread from noticing a signal
_SMALL: Final = 100_000_000  # weights up to which one core does a decoding step sooner than several that are busy


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding, and its outcome but for the line."""

    outcome: Outcome
    run: Run


Ready = Prepared | Outcome
"""What a task gives: its clips, or its outcome where nothing needs decoding."""


class Take(Protocol):
    """Gives what is ready next; None if nothing is or, having waited for it, if there is no more."""

    def __call__(self, *, wait: bool) -> Ready | None: ...


class Pace:
    """How many clips are under way: the given number, or twice as many as long as that makes servers faster.

    The clips that were under way at a change are left aside; over three times as many, clips a second are counted.
    Less than a tenth more than before: the number before stays.
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


class BatchCaptioner:
    """Captions prepared clips, several at a time, each in a thread of its own. Batching never changes a caption.

    A loaded pair decodes `batch_size` clips together; of two models elsewhere, `in_flight` are under way (None: see
    `Pace`). With loaded models, the times of a transcript's forwards are its share of forwards made for several clips,
    by the number of tokens it fed; `ttft_ms` and `total_ms` run from its admission by the clock, so its neighbours'
    work is in them, and the figures of all clips do not add up to the wall time. `cpu_percent` is null.
    """

    def __init__(self, captioner: Captioner, batch_size: int | None, in_flight: int | None = None) -> None:
        self._pair = captioner.pair
        self.pace = Pace((batch_size or AUTO_BATCH_SIZE) if self._pair.loaded else in_flight)

    def run(self, take: Take) -> Generator[Outcome]:
        """The outcome of each clip, in order of finishing; closing the generator leaves nothing behind.

        Clips are taken as others are done, and waited for only while there is nothing to decode.
        """
        results: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        under_way = 0
        with ExitStack() as stack:  # what is under way ends with the models, and then the threads do
            pool, shared = self._enter(stack)
            try:
                while True:
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
                for link in filter(None, (self._pair.remote_edge, self._pair.remote) if under_way else ()):
                    link.http.end_calls()

    def _enter(self, stack: ExitStack) -> tuple[ThreadPoolExecutor, Shared | None]:
        """Threads for the clips, and what makes the forwards of loaded models."""
        models = self._pair.loaded
        if not models:
            return stack.enter_context(ThreadPoolExecutor(self.pace.most, "specdec clip")), None
        import torch

        from specdec_cli.models.shared import Shared

        # An encoder is a few large products and a decoding step many small ones: on several cores, clips of small
        # models that are encoded side by side, one core each, are ready sooner than one clip on all cores.
        small = all(model.parameters <= _SMALL and model.device.type == "cpu" for model in models)
        encoders, threads = (torch.get_num_threads(), 1) if small else (1, torch.get_num_threads())
        # the number of PyTorch's threads counts for the thread that sets it alone
        pool = ThreadPoolExecutor(self.pace.most, "specdec clip", torch.set_num_threads, (threads,))
        return stack.enter_context(pool), stack.enter_context(Shared(encoders, threads=threads))


def _caption(clip: Prepared, shared: Shared | None, results: queue.SimpleQueue[Outcome]) -> None:
    """One clip from beginning to end, in its own thread."""
    try:
        with nullcontext() if shared is None else shared.clip():
            line = clip.run.finish(shared)
    except BaseException as error:  # a panic of an extension is no Exception, and `run` waits for every clip
        line = clip.run.failed(typed(error, _log))
    results.put(replace(clip.outcome, line=line))
