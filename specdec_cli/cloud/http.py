"""HTTP to a cloud elsewhere: calls that block, each with a hard deadline.

Every request may be repeated, so whatever looks like the link's fault is tried again within the deadline. After a
failure the server is left alone for a while, so that clips do not wait for it one after the other. A daemon thread
makes each request: no name server that never answers, no server that sends a byte a second delays a call, or the exit.
"""

from __future__ import annotations

import logging
import math
import os
import random
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx

from specdec_cli.cloud.protocol import MalformedError
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, SpecdecError, TokenizerMismatchError

_log = logging.getLogger(__name__)

_TRIES: Final = 4  # of one request over a link that fails; a server that is busy is tried until the time is up
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_CLOSED: Final = "the clip is closed"
_PIECE: Final = 1 << 14  # bytes of a body that are sent, and counted, at a time
_SLACK_S: Final = 1.0  # the deadline ends a call before a socket's own time limit does
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})

T = TypeVar("T")


class BusyError(Exception):
    """The server is to be tried again, as often as the deadline allows."""


class RefusedError(CloudError):
    """The server refuses a request, and would again, or does not fit: where that is found at the start, a `kind`."""

    kind: type[SpecdecError] = ConfigError

    def __init__(self, message: str, *, hint: str | None = None, code: str = "", about_clip: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code, self.about_clip = code, about_clip


class MisreadError(RefusedError):
    """Token ids mean something else to the server."""

    kind = TokenizerMismatchError


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    status: int
    digest: str | None  # the header Content-Digest
    body: bytes


Check = Callable[[str, Request, Reply], bytes]
"""The body of a good answer from an address; MalformedError and BusyError ask for another try, CloudErrors do not."""


class Http:
    """Connections to one server, kept open. Any number of threads may call at once, through a `Caller` each.

    It takes no proxies from the environment and follows no redirects: what is sent goes to the configured address and
    nowhere else. An answer may have `most_bytes`. Raises ConfigError where token or certificates cannot be read.
    """

    def __init__(self, config: CloudConfig, content_type: str, most_bytes: int, check: Check) -> None:
        if config.url is None:
            raise ConfigError("a cloud elsewhere needs cloud.url")
        self.config, self.url = config, config.url
        self.check, self._most_bytes = check, most_bytes
        self.failure: str | None = None  # why the last call failed
        self.failed_at = 0.0
        self.callers = weakref.WeakValueDictionary[int, Caller]()  # by identity
        self.shortest_s = math.inf  # shortest silence before an answer: a round trip, and what the quickest took
        # not compressed on the way: digests are of the bytes that were sent
        headers = {"User-Agent": "specdec", "Content-Type": content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, "cloud.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        limits = httpx.Limits(max_keepalive_connections=32, keepalive_expiry=60.0)
        tls = _trusted(config.url, config.ca_file)
        self._client = httpx.Client(headers=headers, verify=tls, trust_env=False, limits=limits)
        self.close = weakref.finalize(self, self._client.close)

    def exchange(self, request: Request, caller: Caller, timeout_s: float) -> Reply:
        """Sends a request and reads the answer; `timeout_s` is for each read and write, and for the body as a whole."""
        body, sent_at = bytearray(), time.perf_counter()
        until = sent_at + timeout_s

        def pieces() -> Iterator[bytes]:  # taken once there is a connection, which may end between two
            nonlocal sent_at
            for at in range(0, len(request.body), _PIECE):
                piece = request.body[at : at + _PIECE]
                caller.bytes_up += len(piece)
                yield piece
            sent_at = time.perf_counter()

        url, length = self.url + request.path, {"Content-Length": str(len(request.body))}
        with self._client.stream(request.method, url, content=pieces(), headers=length, timeout=timeout_s) as response:
            silent_s = time.perf_counter() - sent_at
            for chunk in response.iter_raw():
                body += chunk
                caller.bytes_down += len(chunk)
                if len(body) > self._most_bytes:
                    raise MalformedError("it is longer than any answer should be")
                if time.perf_counter() > until:
                    raise httpx.ReadTimeout("the answer took too long")
        if not self.close.alive:  # by now: nobody else would close this connection
            response.extensions["network_stream"].close()
        caller.silent_s += silent_s
        self.shortest_s = min(self.shortest_s, silent_s)
        return Reply(response.status_code, response.headers.get("Content-Digest"), bytes(body))

    def send(self, request: Request) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        if self.close.alive and self.failure is None:
            _in_background(lambda: self.exchange(request, Caller(self), self.config.timeout_s))

    def hang_up(self) -> None:
        """Ends the calls of all clips, as `Caller.close` does."""
        for found in self.callers.valuerefs():
            if (caller := found()) is not None:
                caller.close()

    def require_fit(self, error: BaseException, timeout_s: float) -> None:
        """Raises RefusedError where the configuration is why a connection failed: certificates, or http for https."""
        tls = error
        while not isinstance(tls, ssl.SSLError) and (cause := tls.__cause__ or tls.__context__) is not None:
            tls = cause
        if isinstance(tls, ssl.SSLCertVerificationError):
            trusting = self.config.ca_file or "the public authorities"
            what = f"its certificate is not trusted by {trusting} ({tls.verify_message})"
            hint = (
                "Copy its own certificate (the file of its --tls-cert) to this machine and name it in cloud.ca_file; "
                f"where it has none for this host, make one: {certificate_recipe(urlsplit(self.url).hostname or '')}"
            )
        elif isinstance(tls, ssl.SSLError) and tls.reason in _NOT_TLS:
            what, hint = "it does not use TLS", "Write http:// in cloud.url, or serve with --tls-cert and --tls-key."
        elif isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)) and _needs_tls(self.url, timeout_s):
            what, hint = "it uses TLS, and http is not", "Write https:// in cloud.url."
        else:
            return
        raise RefusedError(f"{self.url} cannot be connected to: {what}", hint=hint) from error


class Caller:
    """The calls of one clip: one at a time, each within its deadline, and ended by `close` from any thread."""

    def __init__(self, http: Http) -> None:
        self.bytes_up = self.bytes_down = 0  # of bodies, as far as they were sent
        self.silent_s = 0.0  # between the end of a request and the head of its answer
        self._http = http
        http.callers[id(self)] = self
        self._closed, self._under_way = threading.Event(), Future[Any]()
        self._limit_s = self._deadline = 0.0

    @contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[None]:
        """Within the block, `fetch`: all of it together has `timeout_s`, or `cloud.timeout_s`. Raises CloudError."""
        http, since_s = self._http, time.monotonic() - self._http.failed_at
        if http.failure is not None and since_s < http.config.retry_s:
            raise CloudError(f"the cloud failed {since_s:.0f} s ago and was not asked again: {http.failure}")
        self._limit_s = timeout_s or http.config.timeout_s
        self._deadline = time.monotonic() + self._limit_s
        try:
            yield
        except CloudError as error:
            if not error.about_clip and not self._closed.is_set():
                http.failure, http.failed_at = error.message, time.monotonic()
            raise
        http.failure = None

    def fetch(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a good answer; it raises MalformedError for one that makes no sense."""
        deadline, troubles = self._deadline, list[str]()
        self._under_way = future = _in_background(lambda: self._tried(request, read, deadline, troubles))
        if self._closed.is_set():
            raise CloudError(_CLOSED)
        try:
            return future.result(max(deadline - time.monotonic(), 0.0))
        except TimeoutError:
            raise self._late(troubles) from None

    def close(self) -> None:
        """Ends the call under way, and every later one, in a CloudError."""
        self._closed.set()
        with suppress(InvalidStateError):
            self._under_way.set_exception(CloudError(_CLOSED))

    def _late(self, troubles: Sequence[str]) -> CloudError:
        hint = "Check the link and the server, or raise cloud.timeout_s."
        why = f": {troubles[-1]}" if troubles else ""
        return CloudError(f"{self._http.url} did not answer within {self._limit_s:g} s{why}", hint=hint)

    def _tried(self, request: Request, read: Callable[[bytes], T], deadline: float, troubles: list[str]) -> T:
        """What `fetch` returns, after as many tries as it takes, in a thread that nobody may wait for any more.

        `troubles` gets why each try failed.
        """
        http, pause_s, tries, trouble = self._http, _FIRST_PAUSE_S, 0, ""
        while tries < _TRIES and (left_s := deadline - time.monotonic()) > 0:
            try:
                reply = http.exchange(request, self, left_s + _SLACK_S)
                return read(http.check(http.url, request, reply))
            except BusyError as error:
                trouble = str(error)
            except MalformedError as error:
                trouble, tries = f"the answer cannot be used: {error}", tries + 1
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
                http.require_fit(error, left_s)
                trouble, tries = " ".join(str(error).split()) or type(error).__name__, tries + 1
            troubles.append(trouble)
            _log.debug("%s %s: %s", request.method, request.path, trouble)
            if tries < _TRIES and self._closed.wait(pause_s * random.uniform(0.5, 1.0)):
                raise CloudError(_CLOSED)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise CloudError(f"{http.url}: {trouble}") if time.monotonic() < deadline else self._late(troubles)


def certificate_recipe(host: str) -> str:
    """The command that makes a self-signed certificate for a host."""
    kind = "IP" if ":" in host or host.replace(".", "").isdigit() else "DNS"
    return (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out cert.pem "
        f"-subj /CN=specdec -addext subjectAltName={kind}:{host}"
    )


def read_token(variable: str | None, asked_by: str, least: int = 1) -> str | None:
    """The token in an environment variable, so that none stands in a file or in a list of processes.

    Raises ConfigError, which names the setting or flag `asked_by`, if it has fewer than `least` visible characters.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if re.fullmatch(rf"[!-~]{{{least},}}", token) is None:
        length, made = (f"at least {least} ", "$(openssl rand -hex 32)") if least > 1 else ("", "...")
        what = f"holds no token of {length}ASCII characters without blanks" if token else "is not set"
        raise ConfigError(f"{asked_by} is {variable}, but that variable {what}.", hint=f"export {variable}={made}")
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
    except OSError as error:
        raise ConfigError(f"cloud.ca_file {ca_file} cannot be read: {error}", hint="Give a PEM file.") from error


def _needs_tls(url: str, timeout_s: float) -> bool:
    """Whether a TLS handshake succeeds at a plain address, with whatever certificate; nothing else is sent."""
    parts = urlsplit(url)
    with suppress(OSError, ValueError):
        place = (parts.hostname or "", parts.port or 80)
        return parts.scheme == "http" and bool(ssl.get_server_certificate(place, timeout=timeout_s))
    return False
