"""Many prepared clips at a time through an edge and a cloud that are servers; nothing is loaded here."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from specdec_cli.batch.loaded_pair import Prepared, Result, Source
from specdec_cli.errors import typed

if TYPE_CHECKING:
    from specdec_cli.decoding.assemble import Pair

_log = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 256
_FIRST: Final = 4
_WORTH: Final = 1.1  # times as many clips a second, for twice as many under way
_MEASURED: Final = 3  # times as many clips as are under way make a measurement
_LOOK_S: Final = 0.02  # between two looks for another clip that is ready


class Pace:
    """How many clips are under way: twice as many, as long as the servers become faster by that.

    The clips that were under way at a change are left aside; over the next ones, three times as many, clips a second
    are counted. Less than a tenth more than before: the number before stays.
    """

    def __init__(self, fixed: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.room, self._settled = fixed or _FIRST, fixed is not None
        self._clock, self._best, self._done, self._since = clock, 0.0, 0, 0.0

    def done(self) -> None:
        """Another clip has its caption."""
        self._done += 1
        if self._settled:
            return
        if self._done == self.room:
            self._since = self._clock()
        if self._done < (1 + _MEASURED) * self.room:
            return
        rate = _MEASURED * self.room / max(self._clock() - self._since, 1e-9)
        if rate < _WORTH * self._best:
            self.room, self._settled = self.room // 2, True
        elif self.room == MOST_IN_FLIGHT:
            self._settled = True
        else:
            self._best, self._done, self.room = rate, 0, 2 * self.room


class ServedCaptioner:
    """Captions prepared clips with `in_flight` of them under way; None: see `Pace`. See `BatchCaptioner`."""

    def __init__(self, pair: Pair, in_flight: int | None) -> None:
        self._links = [link.http for link in (pair.remote_edge, pair.remote) if link is not None]
        self.pace = Pace(in_flight)

    def run(self, source: Source) -> Iterator[Result]:
        """Each clip with its transcript, or with what went wrong, in order of finishing."""
        results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        under_way = 0
        with ThreadPoolExecutor(max(MOST_IN_FLIGHT, self.pace.room), "specdec clip") as pool:
            try:
                while True:
                    while under_way < self.pace.room and (prepared := source.take(wait=not under_way)) is not None:
                        pool.submit(_caption, prepared, results)
                        under_way += 1
                    if not under_way:
                        return
                    try:
                        result = results.get(timeout=_LOOK_S)
                    except queue.Empty:
                        continue
                    under_way -= 1
                    self.pace.done()
                    yield result
            finally:
                for link in self._links if under_way else ():
                    link.hang_up()


def _caption(prepared: Prepared, results: queue.SimpleQueue[Result]) -> None:
    """One clip from beginning to end, in its own thread."""
    try:
        results.put((prepared, prepared.run.finish(alone=False)))
    except Exception as error:
        results.put((prepared, typed(error, _log)))
