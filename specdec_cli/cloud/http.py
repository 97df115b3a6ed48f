"""HTTP to a cloud elsewhere: calls that block, each with a hard deadline.

Every request may be repeated, so whatever looks like the link's fault is tried again within the deadline: a connection
that is refused or reset, a server that is busy or fails, an answer that was cut short or altered. After a failure the
server is left alone for a while, so that clips do not wait for it one after the other.

A daemon thread makes each exchange, and the caller waits for it no longer than its deadline. So nothing delays a call:
no name server that never answers, and no server that sends a byte a second. Nor does the end of the process wait.
"""

from __future__ import annotations

import logging
import math
import os
import random
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx

from specdec_cli.cloud.protocol import MalformedError
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, SpecdecError

_log = logging.getLogger(__name__)

_TRIES: Final = 4  # of one request over a link that fails; a server that is busy is tried until the time is up
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_IDLE_CONNECTIONS: Final = 32
_KEPT_S: Final = 60.0
_CLOSED: Final = "the clip is closed"
_PIECE: Final = 1 << 14  # bytes of a body that are sent, and counted, at a time
_SLACK_S: Final = 1.0  # the deadline ends a call before a socket's own time limit does
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})

T = TypeVar("T")


class UnsoundError(Exception):
    """An answer that another try may better; with `patience`, as often as the deadline allows."""

    def __init__(self, message: str, *, patience: bool = False) -> None:
        super().__init__(message)
        self.patience = patience


class RefusedError(CloudError):
    """The server refuses a request, and would again."""

    def __init__(self, message: str, *, hint: str | None = None, code: str = "", about_clip: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code, self.about_clip = code, about_clip


class MisfitError(CloudError):
    """The server cannot be used with this configuration: an error of that `kind` where it is found at the start."""

    def __init__(self, message: str, *, hint: str | None = None, kind: type[SpecdecError] = ConfigError) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class _LateError(Exception):
    """The deadline has come."""


class Request(NamedTuple):
    """What to send, possibly several times."""

    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    """An answer as it came."""

    status: int
    digest: str | None  # the header Content-Digest
    body: bytes


@dataclass(slots=True)
class Traffic:
    """What requests have cost."""

    bytes_up: int = 0  # of bodies, as far as they were sent
    bytes_down: int = 0
    silent_s: float = 0.0  # between the end of a request and the head of its answer


Check = Callable[[str, Request, Reply], bytes]
"""The body of a good answer from an address; raises UnsoundError or RefusedError for any other."""


class Http:
    """Connections to one server, kept open. Any number of threads may call at once, through a `Caller` each.

    It takes no proxies from the environment and follows no redirects: what is sent goes to the configured address and
    nowhere else. An answer may have `most_bytes`; `check` separates good ones from others.

    Attributes:
        failure: why the last call failed; None: it did not.

    Raises:
        ConfigError: the token or the certificates cannot be read.
    """

    def __init__(self, config: CloudConfig, content_type: str, most_bytes: int, check: Check) -> None:
        if config.url is None:
            raise ConfigError("a cloud elsewhere needs cloud.url")
        self.config, self.url = config, config.url
        self.check, self._most_bytes = check, most_bytes
        self.failure: str | None = None
        self._failed_at = 0.0
        self.shortest_s = math.inf  # shortest silence before an answer: a round trip, and what the quickest took
        # not compressed on the way: digests are of the bytes that were sent
        headers = {"User-Agent": "specdec", "Content-Type": content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, "cloud.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        limits = httpx.Limits(max_keepalive_connections=_IDLE_CONNECTIONS, keepalive_expiry=_KEPT_S)
        tls = _trusted(config.url, config.ca_file)
        self._client = httpx.Client(headers=headers, verify=tls, trust_env=False, limits=limits)
        self.close = weakref.finalize(self, self._client.close)

    def ended(self, failure: str | None = None) -> None:
        """A call has failed, so that none goes out for `cloud.retry_s`; or succeeded."""
        self.failure, self._failed_at = failure, time.monotonic()

    def require_rest(self) -> None:
        """Raises CloudError where a call failed a moment ago."""
        since_s = time.monotonic() - self._failed_at
        if self.failure is not None and since_s < self.config.retry_s:
            raise CloudError(f"the cloud failed {since_s:.0f} s ago and was not asked again: {self.failure}")

    def exchange(self, request: Request, traffic: Traffic, timeout_s: float) -> Reply:
        """Sends a request and reads the answer; `timeout_s` is for each read and write, and for the body as a whole."""
        body, began = bytearray(), time.perf_counter()
        sent_at = began

        def trace(event: str, _: object) -> None:
            nonlocal sent_at
            if event == "http11.send_request_body.complete":
                sent_at = time.perf_counter()

        def pieces() -> Iterator[bytes]:  # taken once there is a connection, which may end between two
            for at in range(0, len(request.body), _PIECE):
                piece = request.body[at : at + _PIECE]
                traffic.bytes_up += len(piece)
                yield piece

        how: dict[str, Any] = {"timeout": timeout_s, "extensions": {"trace": trace}}
        if request.body:
            how |= {"content": pieces(), "headers": {"Content-Length": str(len(request.body))}}
        with self._client.stream(request.method, self.url + request.path, **how) as response:
            traffic.silent_s += time.perf_counter() - sent_at
            for chunk in response.iter_raw():
                body += chunk
                traffic.bytes_down += len(chunk)
                if len(body) > self._most_bytes:
                    raise UnsoundError("the answer is longer than any answer should be")
                if time.perf_counter() - began > timeout_s:
                    raise httpx.ReadTimeout("the answer took too long")
        if not self.close.alive:  # by now: nobody else would close this connection
            response.extensions["network_stream"].close()
        return Reply(response.status_code, response.headers.get("Content-Digest"), bytes(body))

    def send(self, request: Request) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        if self.close.alive and self.failure is None:
            _in_background(lambda: self.exchange(request, Traffic(), self.config.timeout_s))


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
        http, limit_s = self._http, timeout_s or self._http.config.timeout_s
        http.require_rest()
        self._deadline = time.monotonic() + limit_s
        try:
            yield
        except CloudError as error:
            if not error.about_clip and not self._closed.is_set():
                http.ended(error.message)
            raise
        except _LateError:
            late = CloudError(
                f"{http.url} did not answer within {limit_s:g} s",
                hint="Check the link and the server, or raise cloud.timeout_s.",
            )
            http.ended(late.message)
            raise late from None
        http.ended()

    def fetch(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a good answer. It raises MalformedError for one that makes no sense.

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
            if tries == _TRIES:
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
        http, traffic, limit_s = self._http, self.traffic, self._left_s + _SLACK_S
        if limit_s <= _SLACK_S:
            raise _LateError
        before_s = traffic.silent_s
        reply = self._run(lambda: http.exchange(request, traffic, limit_s))
        http.shortest_s = min(http.shortest_s, traffic.silent_s - before_s)
        return reply

    def _run(self, work: Callable[[], T]) -> T:
        """Lets a thread do something, and waits for it no longer than the deadline."""
        self._under_way = future = _in_background(work)
        if self._closed.is_set():
            raise CloudError(_CLOSED)
        try:
            return future.result(self._left_s)
        except TimeoutError:
            if future.done():  # a socket's, not that of the deadline
                raise
            raise _LateError from None

    def _require_fit(self, error: BaseException) -> None:
        """Raises MisfitError where the configuration is why a connection failed: certificates, or http for https."""
        url, ca_file = self._http.url, self._http.config.ca_file
        cause: BaseException | None = error
        if url.startswith("http:") and isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)):
            limit_s = max(self._left_s, 0.01)
            if self._run(lambda: _speaks_tls(url, limit_s)):
                raise MisfitError(
                    f"the server at {url} uses TLS, and http is not",
                    hint="Write https:// in cloud.url; name a certificate of its own in cloud.ca_file.",
                ) from error
        while cause is not None and (cause := cause.__cause__ or cause.__context__) is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                trusted = f"{ca_file} does not vouch for it" if ca_file else "no public authority vouches for it"
                raise MisfitError(
                    f"the certificate of {url} is not trusted ({cause.verify_message}): {trusted}",
                    hint="Copy the server's certificate (the file of its --tls-cert) to this machine and name it in "
                    "cloud.ca_file. Where it has none for this host, make one there: "
                    f"{certificate_recipe(urlsplit(url).hostname or '')}",
                ) from error
            if isinstance(cause, ssl.SSLError) and cause.reason in _NOT_TLS:
                raise MisfitError(
                    f"the server at {url} does not use TLS",
                    hint="Write http:// in cloud.url, or start the server with --tls-cert and --tls-key.",
                ) from error


def certificate_recipe(host: str) -> str:
    """The command that makes a self-signed certificate for a host."""
    kind = "IP" if ":" in host or host.replace(".", "").isdigit() else "DNS"
    return (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out cert.pem "
        f"-subj /CN=specdec -addext subjectAltName={kind}:{host}"
    )


def read_token(variable: str | None, asked_by: str, least: int = 1) -> str | None:
    """The token in an environment variable, so that none stands in a file or in a list of processes.

    Args:
        variable: its name; None: no token.
        asked_by: the setting or flag that names it, for messages.
        least: characters that it must have.

    Raises:
        ConfigError: it is not set, not what a header can hold, or too short.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    hint = f"export {variable}=$(openssl rand -hex 32)" if least > 1 else f"export {variable}=..."
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        what = "holds no token" if token else "is not set"
        raise ConfigError(f"{asked_by} is {variable}, but that variable {what}.", hint=hint)
    if len(token) < least:
        raise ConfigError(f"The token in {variable} ({asked_by}) has fewer than {least} characters.", hint=hint)
    return token


def plain(text: str) -> str:
    """A server's words as part of a message: one short line without control characters."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())[:300]


def _in_background(work: Callable[[], T]) -> Future[T]:
    """Lets a daemon thread do something that may never end; the future may be settled from elsewhere before that."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            settle, found = future.set_result, work()
        except BaseException as error:
            settle, found = future.set_exception, error  # type: ignore[assignment]
        with suppress(InvalidStateError):
            settle(found)

    threading.Thread(target=run, name="specdec cloud", daemon=True).start()
    return future


def _trusted(url: str, ca_file: str | None) -> ssl.SSLContext:
    """The certificates to trust: those of a file, or the public ones; none where the address uses no TLS."""
    if ca_file is None and urlsplit(url).scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the public ones takes 30 ms
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context(trust_env=False)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cloud.ca_file {ca_file} cannot be read: {error}", hint="Give a PEM file.") from error


def _speaks_tls(url: str, timeout_s: float) -> bool:
    """Whether a TLS handshake succeeds at a plain address, with whatever certificate; nothing else is sent."""
    parts = urlsplit(url)
    with suppress(OSError, ValueError):
        return bool(ssl.get_server_certificate((parts.hostname or "", parts.port or 80), timeout=timeout_s))
    return False
