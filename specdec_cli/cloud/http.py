"""HTTP to a model elsewhere: calls that block, each with one deadline for all that it does.

Every request may be repeated, so whatever looks like the link's fault is tried again within the deadline. After a
failure the server is left alone for a while, so that clips do not wait for it one after the other. One thread runs the
exchanges of all callers: a deadline, or an end from another thread, cancels them wherever they are.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import re
import ssl
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from specdec_cli.config import LinkedConfig
from specdec_cli.errors import CloudError, ConfigError, SpecdecError
from specdec_cli.types import Decider

_log = logging.getLogger(__name__)

_TRIES: Final = 4  # of one request over a link that fails; a server that is busy is tried until the time is up
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_CLOSED: Final = "the clip is closed"
_ENDING_S: Final = 1.0  # for what is under way when the connections are closed
_PIECE: Final = 1 << 16  # bytes of a body that are sent, and counted, at a time

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class MalformedError(ValueError):
    """A body that is not what it should be; the message never quotes it."""


class BusyError(Exception):
    """The server is to be tried again, as often as the deadline allows."""


class RefusedError(CloudError):
    """The server refuses a request, and would again, or does not fit.

    `forgotten`: because it has dropped the clip, which can be sent again. `kind` is the error to raise where the
    refusal is found at the start.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        forgotten: bool = False,
        about_clip: bool = False,
        kind: type[SpecdecError] = ConfigError,
    ) -> None:
        super().__init__(message, hint=hint)
        self.forgotten, self.about_clip, self.kind = forgotten, about_clip, kind


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    status: int
    body: bytes


Refused = Callable[[str, Request, Reply], Exception]
"""What an answer whose status is none of success means, given the server's address.

MalformedError and BusyError lead to another try, CloudErrors do not.
"""


class Http:
    """Connections to one server, kept open. Any number of threads may call at once, through a `Caller` each.

    It takes no proxies from the environment and follows no redirects: what is sent goes to the configured address and
    nowhere else. An answer may have `most_bytes`. Without an edge a clip fails, so its link is tried until the
    deadline, and after a failure at once again. Raises ConfigError where token or certificates cannot be read.
    """

    def __init__(
        self, config: LinkedConfig, content_type: str, most_bytes: int, refused: Refused, side: Decider = "cloud"
    ) -> None:
        assert config.url is not None  # or the model is loaded here
        self.side, self.patient = side, side == "edge"
        self.config, self.url = config, config.url
        self.refused, self._most_bytes = refused, most_bytes
        self.failure: str | None = None  # why the last call failed
        self.failed_at = 0.0
        self.callers = weakref.WeakSet[Caller]()
        headers = {"User-Agent": "specdec", "Content-Type": content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, f"{side}.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.AsyncClient(
            headers=headers,
            verify=_trusted(config.url, config.ca_file, f"{side}.ca_file"),
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self._loop,), name="specdec http", daemon=True).start()
        self.close = weakref.finalize(self, _end, self._loop, self._client)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins an exchange in the thread of all exchanges."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def exchange(self, request: Request, caller: Caller, timeout_s: float) -> Reply:
        """Sends a request and reads the answer."""
        body, sent_at = bytearray(), time.perf_counter()

        async def pieces() -> AsyncIterator[bytes]:  # counted as they are sent: a connection may end between two
            nonlocal sent_at
            for at in range(0, len(request.body), _PIECE):
                piece = request.body[at : at + _PIECE]
                caller.bytes_up += len(piece)
                yield piece
            sent_at = time.perf_counter()

        url, length = self.url + request.path, {"Content-Length": str(len(request.body))}
        # A call has one deadline. A handshake ends a little before it: one that is cancelled leaves its socket open.
        limit = httpx.Timeout(None, connect=0.9 * timeout_s)
        sending = self._client.stream(request.method, url, content=pieces(), headers=length, timeout=limit)
        async with asyncio.timeout(timeout_s), sending as response:
            caller.waited_s += time.perf_counter() - sent_at
            async for chunk in response.aiter_raw():
                body += chunk
                caller.bytes_down += len(chunk)
                if len(body) > self._most_bytes:
                    raise MalformedError("it is longer than any answer should be")
        return Reply(response.status_code, bytes(body))

    def send(self, request: Request) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        if self.close.alive and self.failure is None:
            self.start(self.exchange(request, Caller(self), self.config.timeout_s))

    def end_calls(self) -> None:
        """Ends the calls of all clips, as `Caller.close` does."""
        for caller in list(self.callers):
            caller.close()

    def require_tls(self, error: BaseException) -> None:
        """Raises RefusedError where the configuration is why a TLS connection failed."""
        tls: BaseException | None = error
        while tls is not None and not isinstance(tls, ssl.SSLError):
            tls = tls.__cause__ or tls.__context__
        if isinstance(tls, ssl.SSLCertVerificationError):
            trusting = self.config.ca_file or "the public authorities"
            what = f"its certificate is not trusted by {trusting} ({tls.verify_message})"
            hint = (
                "Copy its own certificate (the file of its --tls-cert) to this machine and name it in "
                f"{self.side}.ca_file; where it has none for this host, make one (docs/remote.md)."
            )
        elif tls is not None and "EOF" not in str(tls.args):  # a connection that ended is the link's fault
            what = "it does not use TLS"
            hint = f"Write http:// in {self.side}.url, or serve with --tls-cert and --tls-key."
        else:
            return
        raise RefusedError(f"{self.url} cannot be connected to: {what}", hint=hint) from error


class Caller:
    """The calls of one clip: one at a time, each within its deadline, and ended by `close` from any thread."""

    def __init__(self, http: Http) -> None:
        self.bytes_up = self.bytes_down = 0  # of bodies, as far as they were sent
        self.waited_s = 0.0  # between the end of a request and the head of its answer
        self._http = http
        http.callers.add(self)
        self._closed = False
        self._under_way = Future[Any]()
        self._limit_s = self._deadline = 0.0

    @contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[None]:
        """Within the block, `fetch`: all of it together has `timeout_s`, or the configured time. Raises CloudError."""
        http, since_s = self._http, time.monotonic() - self._http.failed_at
        if http.failure is not None and since_s < http.config.retry_s and not http.patient:
            raise CloudError(f"the {http.side} failed {since_s:.0f} s ago and was not called again: {http.failure}")
        self._limit_s = timeout_s or http.config.timeout_s
        self._deadline = time.monotonic() + self._limit_s
        try:
            yield
        except CloudError as error:
            if not error.about_clip and not self._closed:
                http.failure, http.failed_at = error.message, time.monotonic()
            raise
        http.failure = None

    def fetch(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a good answer; it raises MalformedError for one that makes no sense."""
        if self._closed:
            raise CloudError(_CLOSED)
        self._under_way = future = self._http.start(self._tried(request, read))
        if self._closed:  # meanwhile
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise CloudError(_CLOSED) from None

    def close(self) -> None:
        """Ends the call under way, and every later one, in a CloudError."""
        self._closed = True
        self._under_way.cancel()

    async def _tried(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `fetch` returns, after as many tries as it takes and the deadline allows."""
        http, pause_s, tries, trouble = self._http, _FIRST_PAUSE_S, 0, ""
        most = math.inf if http.patient else _TRIES
        while tries < most and (left_s := self._deadline - time.monotonic()) > 0:
            try:
                reply = await http.exchange(request, self, left_s)
                if not 200 <= reply.status < 300:
                    raise http.refused(http.url, request, reply)
                return read(reply.body)
            except (BusyError, httpx.TimeoutException) as error:
                trouble = str(error)
            except MalformedError as error:
                trouble, tries = f"the answer cannot be used: {error}", tries + 1
            except TimeoutError:
                break
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                http.require_tls(error)
                trouble, tries = " ".join(str(error).split()) or type(error).__name__, tries + 1
                if isinstance(error, httpx.RemoteProtocolError) and http.url.startswith("http:"):
                    trouble += f" (if it uses TLS, write https:// in {http.side}.url)"
            _log.debug("%s %s: %s", request.method, request.path, trouble)
            left_s = self._deadline - time.monotonic()
            if tries < most and left_s > 0:
                await asyncio.sleep(min(pause_s * random.uniform(0.5, 1.0), left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if tries == most:
            raise CloudError(f"{http.url}: {trouble}")
        hint = f"Check the link and the server, or raise {http.side}.timeout_s."
        why = f": {trouble}" if trouble else ""
        raise CloudError(f"{http.url} did not answer within {self._limit_s:g} s{why}", hint=hint)


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
    """A server's message as part of one: a short line without control characters."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())[:300]


def parse(kind: type[M], text: bytes) -> M:
    """The message in a JSON text. Raises MalformedError, which names the first field that is wrong, and no value."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in detail["loc"][:6])
        raise MalformedError(f"{kind.__name__.strip('_')} {place or 'as a whole'}: {detail['msg'][:200]}") from None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """Closes the connections and ends their thread, as happens by itself when an `Http` is dropped."""

    async def end() -> None:
        if under_way := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in (await asyncio.wait(under_way, timeout=_ENDING_S))[1]:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        await client.aclose()
        await asyncio.sleep(0.05)  # in which the sockets are closed
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)


def _trusted(url: str, ca_file: str | None, setting: str) -> ssl.SSLContext:
    """The certificates to trust: those of a file, or the public ones; none where the address uses no TLS."""
    if ca_file is None and urlsplit(url).scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the public ones takes 30 ms
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context(trust_env=False)
    except OSError as error:
        raise ConfigError(f"{setting} {ca_file} cannot be read: {error}", hint="Give a PEM file.") from error
