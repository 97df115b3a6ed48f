"""What the drafter has written behind a block whose verdict is still under way.

A chain of tokens and, behind each of its prefixes, the scores that the next one was chosen by. Scores depend on the
text alone, so they serve wherever the text turns out to be that prefix, however it came about; where it turns out
otherwise they are thrown away. That is why drafting ahead cannot change what is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch


class Flight:
    """A verification that is under way elsewhere.

    Args:
        future: its verdict.
    """

    def __init__(self, future: Future[Any]) -> None:
        self._future = future
        self._started = time.perf_counter()
        self._landed: float | None = None
        future.add_done_callback(self._land)

    def _land(self, _: Future[Any]) -> None:
        self._landed = time.perf_counter()

    @property
    def landed(self) -> bool:
        """Whether the verdict, or an error, is there."""
        return self._future.done()

    @property
    def ms(self) -> float:
        """Milliseconds from the start to the landing, or until now."""
        return ((self._landed or time.perf_counter()) - self._started) * 1e3

    @property
    def overdue_ms(self) -> float:
        """Milliseconds since the landing, 0 before it."""
        return 0.0 if self._landed is None else (time.perf_counter() - self._landed) * 1e3


@dataclass(slots=True)
class _Step:
    """One step of the chain.

    Attributes:
        scores: [1, vocab] processed scores behind the prefix.
        hidden_ms: the part of the step's time that lay within a flight.
        guess: whether the token was only to guess the cloud's own, and so is no draft.
        used: whether a block has been drafted with it.
    """

    scores: torch.Tensor
    hidden_ms: float
    guess: bool
    used: bool = False


class Lookahead:
    """The chain, for one clip; empty most of the time."""

    def __init__(self) -> None:
        self._chain: list[int] = []
        self._steps: dict[int, _Step] = {}  # length of the prefix -> the step behind it
        self._lost = 0

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def chain(self) -> tuple[int, ...]:
        """The text that the chain was drafted behind, and the chain."""
        return tuple(self._chain)

    def at(self, text: Sequence[int]) -> torch.Tensor | None:
        """Scores [1, vocab] behind `text`, if they are known; nothing is taken as used."""
        step = self._at(text)
        return None if step is None else step.scores

    def use(self, text: Sequence[int]) -> tuple[torch.Tensor, float] | None:
        """Scores [1, vocab] behind `text`, if they are known, and their hidden milliseconds, which count once."""
        step = self._at(text)
        if step is None:
            return None
        hidden_ms = 0.0 if step.used else step.hidden_ms
        step.used = True
        return step.scores, hidden_ms

    def add(self, text: Sequence[int], scores: torch.Tensor, token: int, hidden_ms: float, *, guess: bool) -> None:
        """Appends `token`, chosen by `scores` [1, vocab] behind `text`; begins anew if that is not the chain."""
        if self._chain != list(text):
            self._lost += self._forget(self._steps)
        self._chain = [*text, token]
        self._steps[len(text)] = _Step(scores, hidden_ms, guess)

    def keep(self, text: Sequence[int]) -> int:
        """Forgets all but what continues `text`; returns how many drafted tokens that makes useless."""
        goes_on = len(text) < len(self._chain) and self._chain[: len(text)] == list(text)
        lost = self._lost + self._forget([n for n in self._steps if not goes_on or n < len(text)])
        self._lost = 0
        if not self._steps:
            self._chain = []
        return lost

    def _forget(self, lengths: Iterable[int]) -> int:
        """Drops steps by the lengths of their prefixes; returns how many drafts no block was made of."""
        dropped = [self._steps.pop(length) for length in tuple(lengths)]
        return sum(1 for step in dropped if not (step.used or step.guess))

    def _at(self, text: Sequence[int]) -> _Step | None:
        step = self._steps.get(len(text))
        return step if step is not None and self._chain[: len(text)] == list(text) else None
