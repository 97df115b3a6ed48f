"""Many prepared clips through one loaded pair, as the batch command wants them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from specdec_cli.batch.tasks import Outcome
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.assemble import Pair
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.run import Run
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Clip

if TYPE_CHECKING:
    from specdec_cli.models.shared import Shared

_log = logging.getLogger(__name__)

AUTO_BATCH_SIZE: Final = 16
"""Clips decoded together where nothing else is asked for."""

_FIRST: Final = 4  # of them until one is done: a full batch would keep whoever watches waiting for its first caption
_LOOK_S: Final = 0.01  # between two looks for another clip that is ready
_SIGNAL_S: Final = 0.2  # how long a wait may keep the main thread from noticing a signal
_SMALL: Final = 100_000_000
"""Weights up to which one core does a decoding step sooner than several that are busy."""


Ended = Callable[[Clip, Transcript | SpecdecError], Outcome]
"""Takes the transcript of a clip, or what went wrong; returns what that means for its recording."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding, and what takes what became of it."""

    ended: Ended
    run: Run


class Source(Protocol):
    """Where clips come from, as they get ready."""

    def take(self, *, wait: bool) -> Prepared | None:
        """The next clip; None if none is ready or, having waited for one, if there are no more."""


Result = tuple[Prepared, Transcript | SpecdecError]
"""A clip with its transcript, or with what went wrong."""


class BatchCaptioner:
    """Captions prepared clips, several at a time, each in a thread of its own.

    Every clip gets the text that it would get alone. Of its transcript's times, those of forwards are its share of
    forwards made for several clips, by the number of tokens it fed; `ttft_ms` and `total_ms` run from its admission
    by the clock, so its neighbours' work is in them, and the figures of all clips do not add up to the wall time.
    `cpu_percent` is null.

    Args:
        captioner: the loaded pair and its settings.
        batch_size: most clips that are decoded together; None: as many as pays.
    """

    def __init__(self, captioner: Captioner, batch_size: int | None) -> None:
        self._captioner = captioner
        self.batch_size = AUTO_BATCH_SIZE if batch_size is None else batch_size

    def run(self, source: Source) -> Iterator[Result]:
        """Each clip with its transcript, or with what went wrong, in order of finishing.

        Clips are taken as others are done, and waited for only while there is nothing to decode. Closing the
        generator leaves nothing behind.
        """
        from specdec_cli.models.shared import Shared

        encoders, threads = _cores(self._captioner.pair)
        results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        at_work: dict[int, threading.Thread] = {}  # by the identity of its clip, until its result is read
        room = min(self.batch_size, _FIRST)
        try:
            with Shared(encoders, threads=threads) as shared:
                while True:
                    full = self._admit(source, shared, results, at_work, room, threads)
                    if not at_work:
                        return
                    try:
                        result = results.get(timeout=_SIGNAL_S if full else _LOOK_S)
                    except queue.Empty:
                        continue
                    at_work.pop(id(result[0])).join()
                    room = self.batch_size
                    yield result
        finally:  # the clips under way have been ended with `shared`
            if at_work and (remote := self._captioner.pair.remote) is not None:
                remote.http.hang_up()
            for thread in at_work.values():
                thread.join()

    def _admit(
        self,
        source: Source,
        shared: Shared,
        results: queue.SimpleQueue[Result],
        at_work: dict[int, threading.Thread],
        room: int,
        threads: int,
    ) -> bool:
        """Lets clips begin that are ready; returns whether no more may."""
        while len(at_work) < room:
            prepared = source.take(wait=not at_work)
            if prepared is None:
                return False
            arguments = (prepared, shared, results, threads)
            thread = threading.Thread(target=self._caption, args=arguments, name="specdec clip", daemon=True)
            at_work[id(prepared)] = thread
            thread.start()
        return True

    def _caption(self, prepared: Prepared, shared: Shared, results: queue.SimpleQueue[Result], threads: int) -> None:
        """One clip from beginning to end, in its own thread."""
        import torch

        torch.set_num_threads(threads)  # counts for this thread alone
        try:
            with shared.clip():
                result = prepared.run.finish(shared)
        except BaseException as error:
            results.put((prepared, typed(error if isinstance(error, Exception) else RuntimeError(error), _log)))
        else:
            results.put((prepared, result))


def _cores(pair: Pair) -> tuple[int, int]:
    """How many audio encoders run at a time, and with how many threads each forward is made.

    An encoder is a few large products and a decoding step many small ones: on several cores, clips that are encoded
    side by side, one core each, are ready sooner than one clip on all cores.
    """
    import torch

    threads = torch.get_num_threads()
    small = all(model.parameters <= _SMALL and model.device.type == "cpu" for model in pair.loaded)
    return (threads, 1) if small else (1, threads)
