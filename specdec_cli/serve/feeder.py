"""The one thread that uses the model: it makes the forwards that sessions wait for, several in one where they can be.

Verifications that wait at the same time share a forward. A clip that is still to be heard takes a forward of its own,
and the verifications that have come meanwhile go first: a long prefill is waited for once, and not once per clip.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from specdec_cli.errors import DecodingError, SpecdecError, typed
from specdec_cli.models.session import Pass, Steps, Wait, feed_together

_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Whoever counts forwards."""

    def fed(self, clips: int, seconds: float) -> None:
        """A forward for so many clips took so long."""


@dataclass(slots=True, eq=False)
class _Job:
    """Something to be computed.

    Attributes:
        key: jobs with equal keys use the same session: one at a time, in order.
        begin: makes the steps, in the model's thread.
        future: gets the result.
        steps: once begun, stopped at `wanted`.
    """

    key: object
    begin: Callable[[], Steps[Any]]
    future: Future[Any]
    steps: Steps[Any] | None = None
    wanted: Pass | None = None


class Feeder:
    """Takes jobs from any thread.

    Args:
        together: most clips in one forward; 1: each alone.
        watcher: is told of every forward.
    """

    def __init__(self, together: int, watcher: Watcher) -> None:
        self._together = together
        self._watcher = watcher
        self._waiting: deque[_Job] = deque()
        self._running: list[_Job] = []
        self._in_forward = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="specdec model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that are not done."""
        return len(self._waiting) + len(self._running) + self._in_forward

    def submit(self, key: object, begin: Callable[[], Steps[Any]]) -> Future[Any]:
        """Computes what `begin()` describes; cancelling the future before it is begun spares the work."""
        job = _Job(key, begin, Future())
        with self._changed:
            if self._closing:
                raise DecodingError("the server is shutting down")
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Finishes what is waiting, and ends the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while self._admit():
            short = [job for job in self._running if job.wanted is not None and job.wanted.session.length > 0]
            while short:
                size = short[0].wanted.session.vocab_size if short[0].wanted else 0
                group = [job for job in short if job.wanted and job.wanted.session.vocab_size == size]
                group = group[: self._together]
                short = [job for job in short if job not in group]
                self._feed(group)
            unheard = [job for job in self._running if job.wanted is not None and job.wanted.session.length == 0]
            if unheard:
                self._feed(unheard[:1])

    def _admit(self) -> bool:
        """Begins the jobs whose sessions are free; waits if there is nothing to do. False: no more will come."""
        with self._changed:
            while not self._waiting and not self._running:
                if self._closing:
                    return False
                self._changed.wait()
            busy = {job.key for job in self._running}
            fresh: list[_Job] = []
            for _ in range(len(self._waiting)):
                job = self._waiting.popleft()
                if job.key in busy:
                    self._waiting.append(job)
                else:
                    fresh.append(job)
                busy.add(job.key)
        for job in fresh:
            if job.future.set_running_or_notify_cancel():
                self._go_on(job, None)
        return True

    def _feed(self, jobs: list[_Job]) -> None:
        """One forward for `jobs`; one by one if that fails, so that a culprit fails alone."""
        self._running = [job for job in self._running if job not in jobs]
        self._in_forward = len(jobs)
        started = time.perf_counter()
        passes = [job.wanted for job in jobs if job.wanted is not None]
        try:
            answers: list[torch.Tensor | SpecdecError] = list(feed_together(passes))
        except Exception as error:
            if len(jobs) == 1:
                answers = [typed(error, _log)]
            else:
                _log.warning("%d clips could not share a forward, trying them one by one", len(jobs))
                for job in jobs:
                    self._feed([job])
                return
        self._watcher.fed(len(jobs), time.perf_counter() - started)
        self._in_forward = 0
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, SpecdecError):
                if job.steps is not None:
                    job.steps.close()
                job.future.set_exception(answer)
            else:
                self._go_on(job, answer)

    def _go_on(self, job: _Job, answer: torch.Tensor | None) -> None:
        """Runs a job up to the next forward that it needs, or to its end."""
        try:
            if job.steps is None:
                job.steps = job.begin()
                wanted = next(job.steps)
            else:
                wanted = job.steps.send(answer)
            while isinstance(wanted, Wait):
                wanted.run()
                wanted = job.steps.send(None)
        except StopIteration as done:
            job.future.set_result(done.value)
        except Exception as error:
            job.future.set_exception(typed(error, _log))
        else:
            job.wanted = wanted
            self._running.append(job)
