"""HTTP to a cloud elsewhere: calls that block, each with a hard deadline.

Every request may be repeated, so whatever looks like the link's fault is tried again within the deadline: a connection
that is refused or reset, a server that is busy or fails, an answer that was cut short or altered. After a failure the
server is left alone for a while, so that clips do not wait for it one after the other.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import httpx

from specdec_cli.cloud.breaker import Breaker
from specdec_cli.cloud.connection import (
    Line,
    Reply,
    Request,
    Traffic,
    UnsoundError,
    read_token,
    speaks_tls,
    tls_trouble,
    trusted,
)
from specdec_cli.cloud.protocol import MalformedError
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, SpecdecError

_log = logging.getLogger(__name__)

TRIES: Final = 4
"""Of one request, over a link that fails. A server that is busy is tried again until the time is up."""

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_IDLE_CONNECTIONS: Final = 32
_KEPT_S: Final = 60.0
_CLOSED: Final = "the clip is closed"
_SLACK_S: Final = 1.0  # the deadline ends a call before a socket's own time limit does

T = TypeVar("T")


class RefusedError(CloudError):
    """The server refuses a request, and would again."""

    def __init__(self, message: str, *, hint: str | None = None, code: str = "", about_clip: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.about_clip = about_clip


class MisconfiguredError(CloudError):
    """The server cannot be used with this configuration; `refusal` is to be raised where that is found at the start."""

    def __init__(self, refusal: SpecdecError) -> None:
        super().__init__(refusal.message, hint=refusal.hint)
        self.refusal = refusal


class _LateError(Exception):
    """The deadline has come."""


Check = Callable[[str, Request, Reply], bytes]
"""The body of a good answer from an address; raises UnsoundError or RefusedError for any other."""


class Http:
    """Connections to one server, kept open. Any number of threads may call at once, through a `Caller` each.

    It takes no proxies from the environment and follows no redirects: what is sent goes to the configured address and
    nowhere else.

    Args:
        config: with a `url`.
        content_type: of the bodies.
        most_bytes: of an answer.
        check: separates good answers from others.

    Attributes:
        shortest_s: shortest silence before an answer so far, seconds: a round trip, and what the quickest took.

    Raises:
        ConfigError: the token or the certificates cannot be read.
    """

    def __init__(self, config: CloudConfig, content_type: str, most_bytes: int, check: Check) -> None:
        if config.url is None:
            raise ConfigError("a cloud elsewhere needs cloud.url")
        self.config, self.url = config, config.url
        self.most_bytes, self.check = most_bytes, check
        self.breaker = Breaker(config.retry_s)
        self.shortest_s = math.inf
        token = read_token(config.token_env, "cloud.token_env")
        self._headers = {"User-Agent": "specdec", "Content-Type": content_type}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = trusted(config.ca_file)
        self._idle: deque[Line] = deque()
        self.close = weakref.finalize(self, _drop_all, self._idle)

    def take(self) -> Line:
        """A connection that nobody uses; the one used last, if there is one."""
        with suppress(IndexError):
            return self._idle.pop()
        return Line(
            httpx.Client(
                base_url=self.url,
                headers=self._headers,
                verify=self._tls,
                trust_env=False,
                follow_redirects=False,
                limits=httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_S),
            )
        )

    def keep(self, line: Line) -> None:
        """Gives a connection back that is fit for another request."""
        if self.close.alive and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(line)
        else:
            line.drop()

    def send(self, request: Request) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        if self.close.alive and not self.breaker.open:
            line, there = self.take(), weakref.ref(self)

            def done(future: Future[Reply]) -> None:
                http = there()
                line.drop() if future.exception() or http is None else http.keep(line)

            timeout_s, most_bytes = self.config.timeout_s, self.most_bytes
            line.start(lambda: line.exchange(request, Traffic(), timeout_s, most_bytes)).add_done_callback(done)


class Caller:
    """The calls of one clip: one at a time, each within its deadline, and ended by `close` from any thread."""

    def __init__(self, http: Http) -> None:
        self.traffic = Traffic()
        self._http = http
        self._closed = threading.Event()
        self._under_way: Future[Any] = Future()
        self._deadline = 0.0

    @contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[None]:
        """Within the block, `fetch`: all of it together has `timeout_s`, or `cloud.timeout_s`.

        Raises:
            CloudError: whatever goes wrong, or the cloud failed a moment ago.
        """
        breaker, limit_s = self._http.breaker, timeout_s or self._http.config.timeout_s
        if not breaker.admits():
            raise CloudError(f"the cloud failed {breaker.since_s:.0f} s ago and was not asked again: {breaker.reason}")
        self._deadline = time.monotonic() + limit_s
        try:
            yield
        except CloudError as error:
            if error.about_clip or self._closed.is_set():
                breaker.undecided()
            else:
                breaker.failed(error.message)
            raise
        except _LateError:
            late = CloudError(
                f"{self._http.url} did not answer within {limit_s:g} s",
                hint="Check the link and the server, or raise cloud.timeout_s.",
            )
            breaker.failed(late.message)
            raise late from None
        except BaseException:
            breaker.undecided()
            raise
        breaker.succeeded()

    def fetch(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a good answer.

        Args:
            request: may be sent several times.
            read: raises MalformedError for an answer that makes no sense.

        Raises:
            CloudError: there is no good answer.
        """
        pause_s, tries = _FIRST_PAUSE_S, 0
        while True:
            try:
                return read(self._http.check(self._http.url, request, self._exchange(request)))
            except MalformedError as error:
                trouble = f"the answer makes no sense: {error}"
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
                self._require_fit(error)
                trouble = " ".join(str(error).split()) or type(error).__name__
            except UnsoundError as error:
                trouble = str(error)
                tries -= error.patience
            _log.debug("%s %s: %s", request.method, request.path, trouble)
            tries += 1
            if tries == TRIES:
                raise CloudError(f"{self._http.url}: {trouble}")
            if self._closed.wait(min(self._left_s, pause_s * random.uniform(0.5, 1.0))):
                raise CloudError(_CLOSED)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Ends the call under way, and every later one, in a CloudError."""
        self._closed.set()
        with suppress(InvalidStateError):
            self._under_way.set_exception(CloudError(_CLOSED))

    @property
    def _left_s(self) -> float:
        return self._deadline - time.monotonic()

    def _exchange(self, request: Request) -> Reply:
        """One try."""
        most_bytes = self._http.most_bytes
        line, before_s = self._http.take(), self.traffic.silent_s
        reply = self._run(
            line, lambda: line.exchange(request, self.traffic, max(self._left_s, 0.0) + _SLACK_S, most_bytes)
        )
        self._http.keep(line)
        self._http.shortest_s = min(self._http.shortest_s, self.traffic.silent_s - before_s)
        return reply

    def _run(self, line: Line, work: Callable[[], T]) -> T:
        """Lets a connection's thread do something, and waits for it no longer than the deadline."""
        try:
            if self._left_s <= 0:
                raise _LateError
            self._under_way = future = line.start(work)
            if self._closed.is_set():
                raise CloudError(_CLOSED)
            return future.result(self._left_s)
        except TimeoutError:
            line.drop()
            raise _LateError from None
        except BaseException:
            line.drop()
            raise

    def _require_fit(self, error: Exception) -> None:
        """Raises MisconfiguredError where the configuration is why a connection failed."""
        url = self._http.url
        why = tls_trouble(error, url, self._http.config.ca_file)
        if url.startswith("http://") and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)):
            line, left_s = self._http.take(), max(self._left_s, 0.0)
            if self._run(line, lambda: speaks_tls(url, left_s)):
                hint = "Write https:// in cloud.url; name a certificate of its own in cloud.ca_file."
                why = ConfigError(f"the server at {url} uses TLS, and http is not", hint=hint)
            self._http.keep(line)
        if why is not None:
            raise MisconfiguredError(why) from error


def _drop_all(lines: deque[Line]) -> None:
    while lines:
        lines.pop().drop()
