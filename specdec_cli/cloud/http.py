"""HTTP to a model elsewhere: calls that block, each with one deadline for all that it does.

Every request may be repeated, so whatever looks like the link's fault is tried again within the deadline. After a
failure the server is left alone for a while, so that clips do not wait for it one after the other. One thread runs the
exchanges of all callers: a deadline, or an end from another thread, cancels them wherever they are.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import ssl
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from specdec_cli.config import LinkedConfig
from specdec_cli.errors import CloudError, ConfigError, SpecdecError, first_line
from specdec_cli.types import Decider

_log = logging.getLogger(__name__)

_TRIES: Final = 6  # of one request

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class MalformedError(ValueError):
    """A body that is not what it should be, or an answer worth another try; the message never quotes it."""


class RefusedError(CloudError):
    """The server refuses a request, and would again, or does not fit."""

    forgotten = False  # because it has dropped the clip, which can be sent again
    kind: type[SpecdecError] = ConfigError  # the error to raise where the refusal is found at the start

    def __init__(self, message: str, hint: str | None = None, **about: Any) -> None:
        super().__init__(message, hint=hint)
        vars(self).update(about)  # `forgotten`, `kind`, `about_clip`


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    status: int
    body: bytes


Refused = Callable[[str, Request, Reply], Exception]
"""What an answer without success means, given the server's address: MalformedError leads to another try."""


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
        self.config, self.url, self.side, self.patient = config, config.url, side, side == "edge"
        self.refused, self._most_bytes = refused, most_bytes
        self.failure: str | None = None  # why the last call failed
        self.failed_at = 0.0
        self.callers = weakref.WeakSet[Caller]()
        headers = {"User-Agent": "specdec", "Content-Type": content_type, "Accept-Encoding": "identity"}
        if token := read_token(config.token_env, f"{side}.token_env"):
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.AsyncClient(
            headers=headers,
            verify=_trusted(config, f"{side}.ca_file"),
            trust_env=False,
            # a handshake ends a little before the deadline: one that is cancelled leaves its socket open
            timeout=httpx.Timeout(None, connect=0.9 * config.timeout_s),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self._loop,), name="specdec http", daemon=True).start()
        self.close = weakref.finalize(self, _end, self._loop, self._client)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins an exchange in the thread of all exchanges."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def exchange(self, request: Request, caller: Caller) -> Reply:
        """Sends a request and reads the answer."""
        answer, sent_at = bytearray(), time.perf_counter()

        async def content() -> AsyncIterator[bytes]:
            nonlocal sent_at
            caller.bytes_up += len(request.body)
            yield request.body
            sent_at = time.perf_counter()

        url, length = self.url + request.path, {"Content-Length": str(len(request.body))}
        async with self._client.stream(request.method, url, content=content(), headers=length) as response:
            caller.waited_s += time.perf_counter() - sent_at
            async for chunk in response.aiter_raw():
                answer += chunk
                caller.bytes_down += len(chunk)
                if len(answer) > self._most_bytes:
                    raise MalformedError("it is longer than any answer should be")
        return Reply(response.status_code, bytes(answer))

    def send(self, request: Request) -> None:
        """Sends a request and returns at once; the answer is dropped."""
        if self.close.alive and self.failure is None:
            self.start(asyncio.wait_for(self.exchange(request, Caller(self)), self.config.timeout_s))

    def end_calls(self) -> None:
        """Ends the calls of all clips, as `Caller.close` does."""
        for caller in list(self.callers):
            caller.close()

    def trouble(self, error: Exception) -> str:
        """Why a try failed. Raises RefusedError where the configuration is why a TLS connection could not be made."""
        tls: BaseException | None = error
        unfinished = (ssl.SSLWantReadError, ssl.SSLWantWriteError)  # a handshake that its deadline cut off
        while tls is not None and (not isinstance(tls, ssl.SSLError) or isinstance(tls, unfinished)):
            tls = tls.__cause__ or tls.__context__
        if tls is None or "EOF" in str(tls.args):  # a connection that ended is the link's fault
            maybe = isinstance(error, httpx.RemoteProtocolError) and self.url.startswith("http:")
            return first_line(error) + (f" (if it uses TLS, write https:// in {self.side}.url)" if maybe else "")
        what, hint = "it does not use TLS", f"Write http:// in {self.side}.url, or serve with --tls-cert and --tls-key."
        if isinstance(tls, ssl.SSLCertVerificationError):
            trusting = self.config.ca_file or "the public authorities"
            what = f"its certificate is not trusted by {trusting} ({tls.verify_message})"
            hint = f"Copy the file of its --tls-cert here and name it in {self.side}.ca_file (docs/remote.md)."
        raise RefusedError(f"{self.url} cannot be connected to: {what}", hint) from error


class Caller:
    """The calls of one clip: one at a time, each within its deadline, and ended by `close` from any thread."""

    def __init__(self, http: Http) -> None:
        self.bytes_up = self.bytes_down = 0  # of bodies, repeats included
        self.waited_s = 0.0  # between the end of a request and the head of its answer
        self._http, self._closed = http, False
        http.callers.add(self)
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
        self._under_way = future = self._http.start(self._tried(request, read))
        if self._closed:
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise CloudError("the clip is closed") from None

    def close(self) -> None:
        """Ends the call under way, and every later one, in a CloudError."""
        self._closed = True
        self._under_way.cancel()

    async def _tried(self, request: Request, read: Callable[[bytes], T]) -> T:
        """What `fetch` returns, after as many tries as it takes and the deadline allows."""
        http, trouble = self._http, "no answer"
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                for tries in count(1):
                    try:
                        reply = await http.exchange(request, self)
                        if not 200 <= reply.status < 300:
                            raise http.refused(http.url, request, reply)
                        return read(reply.body)
                    except MalformedError as error:
                        trouble = f"the answer cannot be used: {error}"
                    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                        trouble = http.trouble(error)
                    _log.debug("%s %s: %s", request.method, request.path, trouble)
                    if tries == _TRIES and not http.patient:
                        raise CloudError(f"{http.url}: {trouble}")
                    await asyncio.sleep(0.02 * 2 ** min(tries, 6) * random.uniform(0.5, 1.0))
        except TimeoutError:
            pass
        hint = f"Check the link and the server, or raise {http.side}.timeout_s."
        raise CloudError(f"{http.url} did not answer within {self._limit_s:g} s: {trouble}", hint=hint)


def read_token(variable: str | None, asked_by: str, least: int = 1) -> str | None:
    """The token in an environment variable, so that none stands in a file or in a list of processes.

    Raises ConfigError, which names the setting or flag `asked_by`, if it has fewer than `least` visible characters.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if re.fullmatch(rf"[!-~]{{{least},}}", token) is None:
        what = f"holds no token of at least {least} ASCII characters without blanks" if token else "is not set"
        hint = f"export {variable}={'$(openssl rand -hex 32)' if least > 1 else '...'}"
        raise ConfigError(f"{asked_by} is {variable}, but that variable {what}.", hint=hint)
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
        under_way = asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(under_way, 1.0)
        await client.aclose()
        await asyncio.sleep(0.05)  # in which the sockets are closed
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)


def _trusted(config: LinkedConfig, setting: str) -> ssl.SSLContext:
    """The certificates to trust: those of a file, or the public ones; none where the address uses no TLS."""
    try:
        if config.ca_file is not None:
            return ssl.create_default_context(cafile=config.ca_file)
    except OSError as error:
        raise ConfigError(f"{setting} {config.ca_file} cannot be read: {error}", hint="Give a PEM file.") from error
    if (config.url or "").startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the public ones takes 30 ms
    return httpx.create_ssl_context(trust_env=False)
