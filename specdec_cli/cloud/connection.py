"""A connection to a cloud elsewhere, and the daemon thread that uses it.

A caller waits for that thread no longer than its deadline. So nothing delays it: no name server that never answers and
no server that sends a byte a second. Nor does the end of the process wait for such a thread.
"""

from __future__ import annotations

import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx

from specdec_cli.errors import ConfigError

T = TypeVar("T")

_PIECE: Final = 1 << 16
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})
_CONNECTED: Final = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


class UnsoundError(Exception):
    """An answer that another try may better; with `patience`, as often as the deadline allows."""

    def __init__(self, message: str, *, patience: bool = False) -> None:
        super().__init__(message)
        self.patience = patience


@dataclass(frozen=True, slots=True)
class Request:
    """What to send; it may be sent several times."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; `digest` is its header Content-Digest."""

    status: int
    digest: str | None
    body: bytes


@dataclass(slots=True)
class Traffic:
    """What requests have cost: bytes of bodies, and seconds between the end of a request and the head of its answer."""

    bytes_up: int = 0
    bytes_down: int = 0
    silent_s: float = 0.0


class Line:
    """One connection, and the daemon thread that uses it."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._socket: socket.socket | None = None
        self._dropped = False
        threading.Thread(target=self._work, name="specdec cloud", daemon=True).start()

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Lets the thread do something; the future may be settled from elsewhere before that is done."""
        future: Future[T] = Future()
        self._jobs.put((work, future))
        return future

    def drop(self) -> None:
        """Ends what is under way, the connection and the thread; returns at once."""
        self._dropped = True
        _hang_up(self._socket)
        self._jobs.put(None)

    def exchange(self, request: Request, traffic: Traffic, timeout_s: float, most_bytes: int) -> Reply:
        """Sends a request and reads the answer, in this connection's thread; `timeout_s` is for each read and write."""
        sent_at = time.perf_counter()

        def pieces() -> Iterator[bytes]:
            """The body, each piece counted as it goes out: not at all where no connection comes about."""
            nonlocal sent_at
            for at in range(0, len(request.body), _PIECE):
                if self._dropped:
                    raise httpx.WriteError("the call was given up")
                piece = request.body[at : at + _PIECE]
                traffic.bytes_up += len(piece)
                yield piece
            sent_at = time.perf_counter()

        headers = {"Content-Length": str(len(request.body))} if request.body else {}
        content = pieces() if request.body else None
        extensions = {"trace": self._trace}
        body = bytearray()
        with self._client.stream(
            request.method, request.path, content=content, headers=headers, timeout=timeout_s, extensions=extensions
        ) as response:
            traffic.silent_s += time.perf_counter() - sent_at
            for chunk in response.iter_raw():
                body += chunk
                traffic.bytes_down += len(chunk)
                if len(body) > most_bytes:
                    raise UnsoundError("the answer is longer than any answer should be")
        return Reply(response.status_code, response.headers.get("Content-Digest"), bytes(body))

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Keeps the socket, so that `drop` can end a read that waits."""
        if event in _CONNECTED:
            self._socket = info["return_value"].get_extra_info("socket")
            if self._dropped:
                _hang_up(self._socket)

    def _work(self) -> None:
        with self._client:
            while (job := self._jobs.get()) is not None:
                work, future = job
                try:
                    found = work()
                except BaseException as error:
                    with suppress(InvalidStateError):
                        future.set_exception(error)
                else:
                    with suppress(InvalidStateError):
                        future.set_result(found)
                    del found
                del job, work, future  # a thread that waits keeps nothing alive


def trusted(ca_file: str | None) -> ssl.SSLContext:
    """The certificates to trust: those of a file, or the public ones."""
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context(trust_env=False)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cloud.ca_file {ca_file} cannot be read: {error}", hint="Give a PEM file.") from error


def speaks_tls(url: str, timeout_s: float) -> bool:
    """Whether a TLS handshake succeeds at a plain address, with whatever certificate; nothing else is sent."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = (parts.hostname or "", parts.port or 80)
    with suppress(OSError), socket.create_connection(address, timeout_s) as raw, context.wrap_socket(raw):
        return True
    return False


def tls_trouble(error: BaseException, url: str, ca_file: str | None) -> ConfigError | None:
    """What in the configuration makes a connection fail: certificates, or https in place of http; None if nothing."""
    for reason in _causes(error):
        if isinstance(reason, ssl.SSLCertVerificationError):
            trusted = f"{ca_file} does not vouch for it" if ca_file else "no public authority vouches for it"
            return ConfigError(
                f"the certificate of {url} is not trusted ({reason.verify_message}): {trusted}",
                hint="Copy the server's certificate (the file of its --tls-cert) to this machine and name it in "
                "cloud.ca_file; the host in cloud.url must be one that it names.",
            )
        if isinstance(reason, ssl.SSLError) and reason.reason in _NOT_TLS:
            return ConfigError(
                f"the server at {url} does not use TLS",
                hint="Write http:// in cloud.url, or start the server with --tls-cert and --tls-key.",
            )
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _hang_up(connected: socket.socket | None) -> None:
    if connected is not None:
        with suppress(OSError):
            # not SSLSocket's own shutdown, which would let the thread that uses it go on in clear
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


def read_token(variable: str | None, asked_by: str, least: int = 1) -> str | None:
    """The token in an environment variable, so that none stands in a file or in a list of processes; None if none is
    named.

    Args:
        variable: its name.
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
