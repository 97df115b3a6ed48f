"""Servers that run a model elsewhere, as the rest of specdec sees them, whatever they speak.

Calls block, and each has one deadline for all that it does. Every request may be repeated, so whatever looks like the
link's fault is tried again within the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import httpx

from specdec_cli.cloud.http import (
    MOST_REASON_BYTES,
    MalformedError,
    RefusedError,
    read_token,
    refusal,
    trouble,
    trusted,
)
from specdec_cli.config import Config, LinkedConfig
from specdec_cli.decoding.accept import Synonyms
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import Decider, ModelWork

if TYPE_CHECKING:
    from specdec_cli.decoding.rows import Rows

_log = logging.getLogger(__name__)

Payload = Literal["features", "waveform"]  # what of a recording leaves the device: log-mel features, or all of it
TRIES: Final = 6  # of one request
PAUSE_S = 0.02  # before its second try; before each later one twice as long, up to 64 times
T = TypeVar("T")


class RemoteCloud(ABC):
    """A server at an address, where a loaded model would stand in a `Pair`; any number of threads may call it.

    Its processor makes the prompts; it was loaded for this server (`own`), or is the edge's. One thread runs the
    exchanges of all callers: a deadline, or an end from another thread, cancels them wherever they are. After a failure
    the server is left alone for a while, so that clips do not wait for it one after the other. Without an edge a clip
    fails, so its server is called until the deadline, and after a failure at once again.

    It takes no proxies from the environment and follows no redirects: what is sent goes to the configured address and
    nowhere else. Raises ConfigError where token or certificates cannot be read, or recordings may not be sent.
    """

    side: Decider = "cloud"
    content_type: str
    most_bytes: int  # of an answer, unless a request says otherwise
    verifier: type[RemoteVerifier]  # of the blocks of one clip
    served: Mapping[str, str] = {"dtype": "unknown", "device": "unknown"}  # the model, as far as it is known
    reached = False
    failure: str | None = None  # why the last call failed
    failed_at = 0.0

    def __init__(self, config: LinkedConfig, processor: Processor, payload: Payload, *, own: bool) -> None:
        assert config.url is not None  # or the model is loaded here
        if payload == "waveform" and not config.allow_audio_upload:
            message = f"{config.url} needs the recordings themselves, and {self.side}.allow_audio_upload is false"
            hint = "Recordings would leave this machine. Allow it, or use a model that takes log-mel features."
            raise ConfigError(message, hint=hint)
        self.config, self.name, self.payload = config, config.url, payload
        self.processor, self.vocab_size = processor, processor.vocab_size
        self.role = "cloud.processor" if own else "edge"  # what the processor is called in messages
        self.callers, self.lock = weakref.WeakSet[Caller](), threading.Lock()
        headers = {"User-Agent": "specdec", "Content-Type": self.content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, f"{self.side}.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.AsyncClient(
            headers=headers,
            verify=trusted(config, self.side),
            trust_env=False,
            # a handshake ends a little before the deadline: one that is cancelled leaves its socket open
            timeout=httpx.Timeout(None, connect=0.9 * config.timeout_s),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0),
        )
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self.loop,), name="specdec http", daemon=True).start()
        self.close = weakref.finalize(self, _end, self.loop, self._client)  # also called when this is dropped

    @abstractmethod
    def fit(self, caller: Caller) -> None:
        """Finds out, within a call, whether the server fits. Raises CloudError where it does not."""

    def describe(self) -> dict[str, str]:
        """The fields of `transcript.ModelInfo`."""
        return {"name": self.name, **self.served}

    def start(self, timeout_s: float | None = None) -> None:
        """Connects for the first time; a clip tries again. Raises SpecdecError if the configuration is to blame."""
        try:
            with Caller(self).call(timeout_s):
                pass
        except RefusedError as error:
            self.close()
            raise error.kind(error.message, hint=error.hint) from None
        except CloudError:
            pass  # see `failure`

    def probe(self) -> str:
        """What answers and how soon, in a phrase. Raises CloudError if nothing does, or it does not fit."""
        caller, self.reached, self.failure = Caller(self), False, None  # it is called whatever came before
        with caller.call():
            return f"{self.name}: {self.served['serves']}, answered in {caller.waited_s * 1e3:.1f} ms"

    async def exchange(
        self, method: str, path: str, body: bytes, caller: Caller, most_bytes: int = 0
    ) -> tuple[int, bytes]:
        """Sends a request and reads the answer: its status and body. Raises CloudError for a longer one than allowed.

        Nothing is unpacked: a body that is compressed, though nobody asked for that, makes no sense.
        """
        answer, sent_at = bytearray(), time.perf_counter()

        async def content() -> AsyncIterator[bytes]:
            nonlocal sent_at
            caller.bytes_up += len(body)
            yield body
            sent_at = time.perf_counter()

        headers = {"Content-Length": str(len(body))}
        async with self._client.stream(method, self.name + path, content=content(), headers=headers) as response:
            caller.waited_s += time.perf_counter() - sent_at
            most = (most_bytes or self.most_bytes) if response.is_success else MOST_REASON_BYTES
            async for chunk in response.aiter_raw():
                answer += chunk
                caller.bytes_down += len(chunk)
                if len(answer) > most:
                    raise CloudError(f"{self.name}: the answer is longer than the {most} bytes that it may have")
        return response.status_code, bytes(answer)

    def end_calls(self) -> None:
        """Ends the calls of all clips, as `Caller.close` does."""
        with self.lock:  # clips that begin meanwhile add theirs
            callers = list(self.callers)
        for caller in callers:
            caller.close()


class Caller:
    """The calls of one clip: one at a time, each within its deadline, and ended by `close` from any thread."""

    def __init__(self, cloud: RemoteCloud) -> None:
        self.bytes_up = self.bytes_down = 0  # of bodies, repeats included
        self.waited_s = 0.0  # between the end of a request and the head of its answer
        self.cloud, self._closed = cloud, threading.Event()
        self._under_way = Future[Any]()
        self._limit_s = self._deadline = 0.0
        with cloud.lock:  # last: from here on another thread may close it
            cloud.callers.add(self)

    @contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[None]:
        """Within the block, `fetch` from a server that fits: the first call finds that out.

        All of it together has `timeout_s`, or the configured time. Raises CloudError.
        """
        cloud, since_s = self.cloud, time.monotonic() - self.cloud.failed_at
        if cloud.failure is not None and since_s < cloud.config.retry_s and cloud.side == "cloud":
            raise CloudError(f"the cloud failed {since_s:.0f} s ago and was not called again: {cloud.failure}")
        self._limit_s = timeout_s or cloud.config.timeout_s
        self._deadline = time.monotonic() + self._limit_s
        try:
            if not cloud.reached:
                cloud.fit(self)
                cloud.reached = True
            yield
        except CloudError as error:
            if not error.about_clip and not self._closed.is_set():
                cloud.failure, cloud.failed_at = error.message, time.monotonic()
            raise
        cloud.failure = None

    def fetch(self, method: str, path: str, read: Callable[[bytes], T], body: bytes = b"", most_bytes: int = 0) -> T:
        """What `read` makes of a good answer; it raises MalformedError for one that makes no sense.

        An answer is read in this thread, so that no other call waits for that, and within the deadline.
        """
        cloud, why = self.cloud, "no answer"
        for tries in count(1):
            try:
                status, answer = self._try(method, path, body, most_bytes)
                if not 200 <= status < 300:
                    raise refusal(status, answer, cloud.side, cloud.name)
                found = read(answer)
                if time.monotonic() < self._deadline:
                    return found
            except TimeoutError:
                pass
            except MalformedError as error:
                why = f"the answer cannot be used: {error}"
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                why = trouble(error, cloud.config, cloud.side)
            _log.debug("%s %s: %s", method, path, why)
            left_s = self._deadline - time.monotonic()
            if tries == TRIES and cloud.side == "cloud" and left_s > 0:
                raise CloudError(f"{cloud.name}: {why}", hint=f"Start the server, or check {cloud.side}.url.")
            pause_s = PAUSE_S * 2 ** min(tries, 6) * random.uniform(0.5, 1.0)
            if self._closed.wait(min(pause_s, max(left_s, 0.0))):
                raise CloudError("the clip is closed")
            if left_s <= pause_s:
                hint = f"Check the link and the server, or raise {cloud.side}.timeout_s."
                raise CloudError(f"{cloud.name} did not answer within {self._limit_s:g} s: {why}", hint=hint)
        raise AssertionError

    def _try(self, method: str, path: str, body: bytes, most_bytes: int) -> tuple[int, bytes]:
        """The answer to one try. Raises TimeoutError when the deadline has passed."""
        cloud, left_s = self.cloud, self._deadline - time.monotonic()
        exchange = asyncio.wait_for(cloud.exchange(method, path, body, self, most_bytes), left_s)
        self._under_way = future = asyncio.run_coroutine_threadsafe(exchange, cloud.loop)
        if self._closed.is_set():
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise CloudError("the clip is closed") from None

    def send(self, method: str, path: str) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        cloud = self.cloud
        if cloud.close.alive and cloud.failure is None:
            exchange = asyncio.wait_for(cloud.exchange(method, path, b"", self), cloud.config.timeout_s)
            asyncio.run_coroutine_threadsafe(exchange, cloud.loop)

    def close(self) -> None:
        """Ends the call under way, and every later one, in a CloudError."""
        self._closed.set()
        self._under_way.cancel()


@dataclass(eq=False)
class RemoteClip(Caller):
    """One clip at a server; one thread at a time calls it. Raises DecodingError if the prompt holds no recording."""

    cloud: RemoteCloud
    prompt: Prompt
    config: Config
    vocab_size: int
    stop_ids: Collection[int]
    top_n: int = 0  # likeliest tokens to list of each decided position
    synonyms: Synonyms = field(default_factory=dict)
    rows: Rows | None = field(default=None, init=False)
    elsewhere = True
    done = ModelWork()  # so far, but for what was sent

    def __post_init__(self) -> None:
        super().__init__(self.cloud)
        if self.prompt.waveform is None:
            raise DecodingError(f"the cloud at {self.cloud.name} needs the recording, and the prompt does not hold it")
        self.waveform = self.prompt.waveform

    @property
    def work(self) -> ModelWork:
        return replace(self.done, bytes_up=self.bytes_up)


class RemoteVerifier(RemoteClip, ABC):
    """Verifies the blocks of one clip at a server. See `LocalVerifier`.

    The clip is sent with the first block, or with `prefill`; a server that has dropped it is sent it again. Raises
    DecodingError if the server cannot apply these settings.
    """

    @abstractmethod
    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        """The server's verdict, within a call; its `ms` is the server's time for all of it."""

    @abstractmethod
    def prefill(self) -> None: ...

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        started, before, down = time.perf_counter(), self.work, self.bytes_down
        with self.call():
            found = self.request_verdict(text, draft, run_on)
        done, elapsed_ms = self.work - before, (time.perf_counter() - started) * 1e3
        return replace(
            found,
            ms=max(found.ms - done.reading_ms, 0.0),
            prefilled=done.encoder_passes > 0,
            network_ms=max(elapsed_ms - found.ms, 0.0),
            bytes_up=done.bytes_up,
            bytes_down=self.bytes_down - down,
        )


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """Closes the connections and ends their thread."""

    async def end() -> None:
        if under_way := asyncio.all_tasks() - {asyncio.current_task()}:
            _, late = await asyncio.wait(under_way, timeout=1.0)
            for task in late:
                task.cancel()
        await client.aclose()
        await asyncio.sleep(0.05)  # in which the sockets are closed
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
