"""Remote models and their verifiers, whatever protocol the server speaks.

Calls block, and each has one deadline for all that it does. Every request may be repeated, so whatever looks like the
network's fault is tried again within the deadline.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, TypeVar

import httpx

from specdec_cli import interrupts
from specdec_cli.cloud.connection import Connection, Traffic
from specdec_cli.cloud.http import MalformedError, RefusedError, failure_of, refusal
from specdec_cli.config import Server
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import CloudError, ConfigError, EdgeError
from specdec_cli.models.processor import Processor
from specdec_cli.types import Decider, ModelWork, Payload

_log = logging.getLogger(__name__)

TRIES: Final = 6  # of one request
PAUSE_S = 0.02  # before the second try; before each later one twice as long, up to 64 times
T = TypeVar("T")


class RemoteModel(ABC):
    """A model behind a server, in the place of a loaded one in a `Pair`. Any number of threads may call it.

    Its processor makes the prompts: one loaded for this server (`own`), or the edge's. After a failure a cloud is not
    called for `retry_s`, so that clips do not wait for it one after the other. Without its edge a clip fails, so an
    edge is called until the deadline, and again at once after a failure.

    Raises ConfigError as `Connection` does, or if recordings may not be sent.
    """

    is_remote: Literal[True] = True
    content_type: str  # of requests
    most_bytes: int  # of an answer, unless a request says otherwise

    def __init__(
        self, config: Server, processor: Processor, payload: Payload, *, own: bool, role: Decider = "cloud"
    ) -> None:
        if payload == "waveform" and not config.allow_audio_upload:
            message = f"{config.url} needs the recordings themselves, and remote.allow_audio_upload is false"
            hint = "Recordings would leave this machine. Allow it, or use a model that takes log-mel features."
            raise ConfigError(message, hint=hint)
        self.config, self.name, self.payload, self.role = config, config.url, payload, role
        self.processor, self.vocab_size = processor, processor.vocab_size
        self.processor_name = "cloud.processor" if own else "edge"  # in messages
        self.known: Mapping[str, str] = {"dtype": "unknown", "device": "unknown"}  # fields of `transcript.ModelInfo`
        self.fits = False  # whether a call has found that the server fits
        self.failure: str | None = None  # why the last call failed; None: it did not
        self.failed_at = 0.0  # `time.monotonic`, seconds
        self._calls, self._lock = weakref.WeakSet[Call](), threading.Lock()
        self.connection = Connection(config, role, self.content_type)

    @abstractmethod
    def require_fit(self, call: Call) -> None:
        """Checks, within a call, whether the server fits. Raises CloudError if it does not."""

    @abstractmethod
    def sound_fault(self, lexicon: str) -> str | None:
        """Why the sound cannot ban tokens of this model by the lexicon of that digest; None: nothing is known."""

    @abstractmethod
    def verifier(self, clip: RemoteClip) -> RemoteVerifier:
        """The verifier of a clip. Raises DecodingError if the server cannot apply the clip's settings."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.ModelInfo`."""
        return {"name": self.name, **self.known}

    def start(self, timeout_s: float | None = None) -> None:
        """Connects for the first time. A cloud that does not answer is called again by a clip.

        Raises EdgeError if an edge does not answer, other SpecdecErrors if the configuration is to blame.
        """
        try:
            with Call(self).within_deadline(timeout_s):
                pass
        except RefusedError as error:
            self.close()
            raise error.kind(error.message, hint=error.hint) from None
        except CloudError as error:  # `failure` holds a cloud's
            if self.role == "edge":
                raise EdgeError(error.message, hint="Start the server, or check edge.model.") from error

    def probe(self) -> str:
        """Which model answers and how soon, in a phrase. Raises CloudError if none answers, or it does not fit."""
        call, self.fits, self.failure = Call(self), False, None  # earlier failures do not count
        with call.within_deadline():
            return f"{self.name}: {self.known['serves']}, answered in {call.traffic.waited_s * 1e3:.1f} ms"

    def register(self, call: Call) -> None:
        """Notes a call, so that `end_calls` ends it, too."""
        with self._lock:
            self._calls.add(call)

    def close(self) -> None:
        """Ends all calls, and closes the connections."""
        self.end_calls()
        self.connection.close()

    def end_calls(self) -> None:
        """Ends the calls of all clips, as `Call.close` does."""
        with self._lock:  # clips that begin meanwhile add their calls
            calls = list(self._calls)
        for call in calls:
            call.close()


class Call:
    """The calls of one clip to a model: one at a time, each within its deadline, ended by `close` from any thread."""

    def __init__(self, model: RemoteModel) -> None:
        self.model = model
        self.traffic = Traffic()
        self._closed = threading.Event()
        self._running = Future[Any]()
        self._limit_s = self._deadline = 0.0
        model.register(self)  # last: from here on another thread may close it

    @contextmanager
    def within_deadline(self, timeout_s: float | None = None) -> Iterator[None]:
        """Within the block, `fetch` may be called. The first block of a model checks whether its server fits.

        All calls in the block together have `timeout_s`, or the configured time. Raises CloudError.
        """
        model, since_s = self.model, time.monotonic() - self.model.failed_at
        if model.failure is not None and since_s < model.config.retry_s and model.role == "cloud":
            raise CloudError(f"the cloud failed {since_s:.0f} s ago and was not called again: {model.failure}")
        self._limit_s = timeout_s or model.config.timeout_s
        self._deadline = time.monotonic() + self._limit_s
        try:
            with interrupts.woken_by(self.close):
                if not model.fits:
                    model.require_fit(self)
                    model.fits = True
                yield
        except CloudError as error:
            if not error.about_clip and not self._closed.is_set():
                model.failure, model.failed_at = error.message, time.monotonic()
            raise
        model.failure = None

    def fetch(self, method: str, path: str, read: Callable[[bytes], T], body: bytes = b"", most_bytes: int = 0) -> T:
        """The result of `read` on a good answer. `read` raises MalformedError for an answer that makes no sense.

        This thread parses the answer, within the deadline, so that no other call waits for that. Raises CloudError.
        """
        model, why, tries = self.model, "no answer", 0
        while True:
            tries += 1
            try:
                status, answer = self._try(method, path, body, most_bytes)
                if not 200 <= status < 300:
                    raise refusal(status, answer, model.role, model.name)
                found = read(answer)
                if time.monotonic() < self._deadline:
                    return found
            except TimeoutError:
                pass
            except MalformedError as error:
                why = f"the answer cannot be used: {error}"
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                why = failure_of(error, model.config, model.role)
            _log.debug("%s %s: %s", method, path, why)
            self._pause(tries, why)

    def send(self, method: str, path: str) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        model = self.model
        if model.failure is None:
            self._exchange(method, path, b"", model.most_bytes, model.config.timeout_s)

    def close(self) -> None:
        """Ends the running call, and every later one, in a CloudError."""
        self._closed.set()
        self._running.cancel()

    def _try(self, method: str, path: str, body: bytes, most_bytes: int) -> tuple[int, bytes]:
        """The answer to one try. Raises TimeoutError when the deadline has passed."""
        most, left_s = most_bytes or self.model.most_bytes, self._deadline - time.monotonic()
        self._running = future = self._exchange(method, path, body, most, left_s)
        if self._closed.is_set():
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise CloudError("the clip is closed") from None

    def _exchange(self, method: str, path: str, body: bytes, most: int, limit_s: float) -> Future[tuple[int, bytes]]:
        connection = self.model.connection
        return connection.submit(connection.exchange(method, path, body, self.traffic, most), limit_s)

    def _pause(self, tries: int, why: str) -> None:
        """Waits before another try. Raises CloudError if none is left, by their number or by the deadline."""
        model, left_s = self.model, self._deadline - time.monotonic()
        if tries == TRIES and model.role == "cloud" and left_s > 0:
            raise CloudError(f"{model.name}: {why}", hint=f"Start the server, or check {model.role}.model.")
        pause_s = PAUSE_S * 2 ** min(tries, 6) * random.uniform(0.5, 1.0)
        if self._closed.wait(min(pause_s, max(left_s, 0.0))):
            raise CloudError("the clip is closed")
        if left_s <= pause_s:
            hint = "Check the network and the server, or raise remote.timeout_s."
            raise CloudError(f"{model.name} did not answer within {self._limit_s:g} s: {why}", hint=hint)


class RemoteVerifier(ABC):
    """Verifies the blocks of one clip at a server, as `LocalVerifier` does in this process.

    The clip is sent with the first block, or with `prefill`; a server that has dropped it is sent it again. Raises
    CloudError if the server does not answer, or answers nonsense.
    """

    is_remote: ClassVar[bool] = True

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    @abstractmethod
    def work(self) -> ModelWork:
        """What the server has done for the clip so far."""

    @abstractmethod
    def _verdict(self, text_ids: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        """The server's verdict, fetched within a deadline; its `ms` is the server's time."""

    @abstractmethod
    def _prefill(self) -> None:
        """Sends the clip, within a deadline, unless the server has it."""

    def verify(self, text_ids: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The verdict on `draft` after `text_ids`; see `LocalVerifier.verify`."""
        traffic, started, before = self._call.traffic, time.perf_counter(), self.work
        down = traffic.bytes_down
        with self._call.within_deadline():
            found = self._verdict(text_ids, draft, run_on)
        done, elapsed_ms = self.work - before, (time.perf_counter() - started) * 1e3
        return replace(
            found,
            ms=max(found.ms - done.reading_ms, 0.0),
            prefilled=done.encoder_passes > 0,
            network_ms=max(elapsed_ms - found.ms, 0.0),
            bytes_up=done.bytes_up,
            bytes_down=traffic.bytes_down - down,
        )

    def prefill(self) -> None:
        """Sends the clip to be encoded before a block needs it."""
        with self._call.within_deadline():
            self._prefill()

    def close(self) -> None:
        """Ends the running call."""
        self._call.close()
