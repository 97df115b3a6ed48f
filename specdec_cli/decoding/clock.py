"""Time of a computation that stops again and again: its own, and that of those who make it wait left out."""

from __future__ import annotations

import time
from typing import Any

from specdec_cli.decoding.cloud_side import Turns
from specdec_cli.models.session import T
from specdec_cli.types import Sent


class ActiveTime:
    """Milliseconds since the start, without the time that the reader of the events took."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._since = time.perf_counter()

    def pause(self) -> None:
        """The reader's time begins."""
        self._elapsed += time.perf_counter() - self._since

    def resume(self) -> None:
        """The reader's time is over."""
        self._since = time.perf_counter()

    @property
    def ms(self) -> float:
        """So far; not to be asked while paused."""
        return (self._elapsed + time.perf_counter() - self._since) * 1e3


def told(turns: Turns[T], clock: ActiveTime) -> Turns[T]:
    """`turns`, the clock standing still while somebody reads what they tell."""
    answer: Any = None
    try:
        while True:
            turn = turns.send(answer)
            if isinstance(turn, Sent):
                clock.pause()
                answer = yield turn
                clock.resume()
            else:
                answer = yield turn
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        turns.close()


def timed(steps: Turns[T]) -> Turns[tuple[T, float]]:
    """The result of `steps` and its own milliseconds: those of the forwards, and of waiting for them, left out."""
    own = 0.0
    since = time.perf_counter()
    try:
        wanted = next(steps)
        while True:
            own += time.perf_counter() - since
            scores = yield wanted
            since = time.perf_counter()
            wanted = steps.send(scores)
    except StopIteration as done:
        result: T = done.value
        return result, (own + time.perf_counter() - since) * 1e3
