"""Several clips decoded together: each row takes its own decisions, and the forwards that rows wait for are shared.

A row is an engine stopped at a pass. One step picks a model, makes one forward for all rows that wait for it, and lets
each of them go on to its next pass. So one edge forward drafts for all rows, the rows that escalate are verified in one
cloud forward, a row that is done leaves at once, and another may join before the next step. Which rows share a forward
changes no decision. A row that waits for an answer from elsewhere, or for its audio to be heard in another thread,
keeps no other row waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from specdec_cli.decoding.engine import Engine
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.models.encoders import Encoders
from specdec_cli.models.session import Pass, Wait, feed_together
from specdec_cli.types import Event

Key = TypeVar("Key")

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Row(Generic[Key]):
    """A clip in flight.

    Attributes:
        key: what the caller calls it.
        steps: its engine, stopped at `wanted`.
        wanted: the pass, or the answer from elsewhere, that it waits for.
        elsewhere: what has to be there first: that answer, or the audio that the pass feeds.
        fresh: whether it has been given nothing yet.
        waited: steps that served others since it could have been served.
    """

    key: Key
    steps: Generator[Pass | Wait | Event, Any, None]
    wanted: Pass | Wait
    elsewhere: Future[Any] | None
    fresh: bool
    waited: int = 0

    @property
    def ready(self) -> bool:
        """Whether nothing has to be there first."""
        return self.elsewhere is None or self.elsewhere.done()


class Rows(Generic[Key]):
    """The clips in flight.

    Args:
        patience: most steps that a row waits while larger groups are served. Waiting lets the rows that are still
            drafting catch up, so that the expensive forward serves more of them; a block's length is a good measure.
        encoders: hear clips while others are decoded; None: each clip's first forward hears it.
    """

    def __init__(self, patience: int, encoders: Encoders | None = None) -> None:
        self._patience = patience
        self._encoders = encoders
        self._rows: list[_Row[Key]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def starting(self) -> int:
        """Rows that still wait for their first forward."""
        return sum(row.fresh for row in self._rows)

    def admit(self, key: Key, engine: Engine) -> list[tuple[Key, Event | SpecdecError]]:
        """Starts a clip, up to its first pass; returns what happened on the way there."""
        return self._go_on(key, engine.steps(), None, fresh=True)

    def step(self) -> list[tuple[Key, Event | SpecdecError]]:
        """Makes one forward and returns what it led to; a row is gone behind its `Finished` or its error.

        Rows whose answer from elsewhere is there go on first; where all rows wait for one, so does this call. An
        error in one row ends that row alone.
        """
        happened = self._resume()
        passes = {id(row): row.wanted for row in self._rows if isinstance(row.wanted, Pass) and row.ready}
        if not passes:
            return happened
        served = self._group(passes)
        self._rows = [row for row in self._rows if row not in served]
        for row in self._rows:
            row.waited += row.ready
        try:
            answers = _answers([passes[id(row)] for row in served])
            while served:
                row, answer = served.pop(0), answers.pop(0)
                if isinstance(answer, SpecdecError):
                    row.steps.close()
                    happened.append((row.key, answer))
                else:
                    happened += self._go_on(row.key, row.steps, answer)
        finally:
            self._rows += served  # an interrupt came in between: `close` is to find them
        return happened

    def close(self) -> None:
        """Ends all rows, leaving their sessions clean."""
        while self._rows:
            self._rows.pop().steps.close()

    def _resume(self) -> list[tuple[Key, Event | SpecdecError]]:
        """Lets every row go on whose answer from elsewhere is there; where no row can, waits until one can."""
        if not any(row.ready for row in self._rows):
            wait([row.elsewhere for row in self._rows if row.elsewhere is not None], return_when=FIRST_COMPLETED)
        there = [row for row in self._rows if isinstance(row.wanted, Wait) and row.ready]
        self._rows = [row for row in self._rows if row not in there]
        happened: list[tuple[Key, Event | SpecdecError]] = []
        try:
            while there:
                row = there.pop(0)
                happened += self._go_on(row.key, row.steps, None)
        finally:
            self._rows += there
        return happened

    def _group(self, passes: Mapping[int, Pass]) -> list[_Row[Key]]:
        """The rows to serve next: the largest group that shares a model, unless somebody has lost patience.

        Args:
            passes: what each row wants, by the row's `id`, of the rows that want a pass.
        """
        groups: dict[tuple[int, int], list[_Row[Key]]] = {}
        for row in self._rows:
            if id(row) in passes:
                session = passes[id(row)].session
                groups.setdefault((id(session.model), session.vocab_size), []).append(row)
        overdue = max((row for row in self._rows if id(row) in passes), key=lambda row: row.waited)
        if overdue.waited >= self._patience:
            return next(group for group in groups.values() if overdue in group)
        return max(groups.values(), key=len)

    def _go_on(
        self,
        key: Key,
        steps: Generator[Pass | Wait | Event, Any, None],
        answer: torch.Tensor | None,
        *,
        fresh: bool = False,
    ) -> list[tuple[Key, Event | SpecdecError]]:
        """Runs a row up to what it needs next, or to its end."""
        happened: list[tuple[Key, Event | SpecdecError]] = []
        try:
            step = next(steps) if answer is None else steps.send(answer)
            while not isinstance(step, (Pass, Wait)):
                happened.append((key, step))
                step = next(steps)
        except StopIteration:
            return happened
        except Exception as error:
            return [*happened, (key, typed(error, _log))]
        self._rows.append(_Row(key, steps, step, self._elsewhere(step), fresh))
        return happened

    def _elsewhere(self, wanted: Pass | Wait) -> Future[Any] | None:
        """What has to be there before a row can go on, begun if need be."""
        if isinstance(wanted, Wait):
            return wanted.future
        return None if self._encoders is None else wanted.session.hear(self._encoders)


def _answers(passes: Sequence[Pass]) -> list[torch.Tensor | SpecdecError]:
    """The scores of every pass, from one forward; one by one if that fails, so that a culprit fails alone."""
    if len(passes) > 1:
        try:
            return list(feed_together(passes))
        except Exception as error:
            _log.warning("%d clips could not share a forward, trying them one by one: %s", len(passes), error)
    return [_answer(wanted) for wanted in passes]


def _answer(wanted: Pass) -> torch.Tensor | SpecdecError:
    try:
        return wanted.run()
    except Exception as error:
        return typed(error, _log)
