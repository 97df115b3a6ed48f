"""A cloud of this process that works beside the edge: in a thread of its own, behind an imitated link if wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.imitation import BYTES_PER_ID, Imitation
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.models.family import AudioLanguageModel
from specdec_cli.models.session import Session, Steps, Wait, run_alone
from specdec_cli.types import LinkUse, ModelWork

Result = TypeVar("Result")

_workers: WeakKeyDictionary[AudioLanguageModel, ThreadPoolExecutor] = WeakKeyDictionary()
_workers_lock = threading.Lock()


def _worker(model: AudioLanguageModel) -> ThreadPoolExecutor:
    """The one thread of this process in which `model` verifies: clips take turns, as they would at one server."""
    with _workers_lock:
        if model not in _workers:
            _workers[model] = ThreadPoolExecutor(1, thread_name_prefix="cloud")
        return _workers[model]


class ThreadedVerifier:
    """Lets a `SessionVerifier` work in its model's thread.

    Args:
        inner: does the work. Nobody else may use it.
        imitation: delays to add.
        prompt_bytes: what the clip's prompt would take on a wire; it is sent once.
    """

    def __init__(self, inner: SessionVerifier, imitation: Imitation, prompt_bytes: int) -> None:
        self._inner = inner
        self._imitation = imitation
        self._unsent_bytes = prompt_bytes
        self._worker = _worker(inner.session.model)
        self._reading: Future[None] | None = None
        self._judging: Future[Verdict] | None = None
        self._abandoned = threading.Event()

    @property
    def session(self) -> Session:
        """The clip on the verifying model."""
        return self._inner.session

    @property
    def work(self) -> ModelWork:
        """What the verifying model has done for this clip."""
        return self._inner.work

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        """Starts, and waits for the verdict."""
        future = self.start(text, draft, run_on)
        yield Wait(future)
        return future.result()

    def start(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict]:
        """Begins to judge and returns at once; one block at a time."""
        text, reading = tuple(text), self._reading

        def judge() -> Verdict:
            return run_alone(self._inner.verify(text, draft, run_on))

        if not self._imitation.has_link:
            self._judging = self._worker.submit(judge)
            return self._judging
        size = BYTES_PER_ID * (len(text) + len(draft.ids)) + self._send_prompt()
        self._judging = self._in_thread(lambda: self._exchange(judge, size, reading))
        return self._judging

    def prefill(self) -> Steps[None]:
        """Starts to read clip and prompt, and waits until they are read."""
        future = self.start_prefill()
        yield Wait(future)
        future.result()

    def start_prefill(self) -> Future[None]:
        """Begins to read clip and prompt and returns at once."""

        def read() -> None:
            run_alone(self._inner.prefill())

        if not self._imitation.has_link:
            self._reading = self._worker.submit(read)
            return self._reading
        size = self._send_prompt()

        def send() -> None:
            self._travel(size)
            self._worker.submit(read).result()

        self._reading = self._in_thread(send)
        return self._reading

    def rollback(self, text: Sequence[int]) -> None:
        """Makes sure that the session's cache holds a prefix of `text`; what is being judged is judged to the end."""
        if self._judging is not None:
            if not self._judging.done():
                self._abandoned.set()  # nobody will read the answer: it need not travel
                wait([self._judging])
                self._abandoned.clear()
            self._judging = None
        if self._reading is not None and not self._reading.done():
            return  # the prompt is being read: there is no text yet
        self._inner.rollback(text)

    def _exchange(self, judge: Callable[[], Verdict], size: int, reading: Future[None] | None) -> Verdict:
        """Message out, judgement, message back."""
        started = time.perf_counter()
        self._travel(size)
        if reading is not None:
            wait([reading])
        arrived = time.perf_counter()
        verdict = self._worker.submit(judge).result()
        cloud_ms = (time.perf_counter() - arrived) * 1e3
        self._travel(BYTES_PER_ID * (2 + len(verdict.more)))
        network_ms = (time.perf_counter() - started) * 1e3 - cloud_ms
        return replace(verdict, link=LinkUse(0, 0, network_ms, cloud_ms, simulated=True))

    def _travel(self, size: int) -> None:
        self._abandoned.wait(self._imitation.one_way_s(size))

    def _send_prompt(self) -> int:
        """Bytes of the prompt, the first time."""
        size, self._unsent_bytes = self._unsent_bytes, 0
        return size

    @staticmethod
    def _in_thread(work: Callable[[], Result]) -> Future[Result]:
        """The result of what mostly sleeps, in a thread of its own."""
        future: Future[Result] = Future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name="link", daemon=True).start()
        return future
