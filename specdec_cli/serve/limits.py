"""What a server refuses: requests without the token, too many of them, bodies and connections beyond its room."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from specdec_cli.cloud.protocol import Code, Problem


class Refusal(Exception):
    """A request that is not answered: the status of HTTP and a `Problem`, whose message never quotes what was sent."""

    def __init__(self, status: int, code: Code, message: str) -> None:
        super().__init__(message)
        self.status, self.problem = status, Problem(code=code, message=message[:2000])


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Bounds of a server; `_s` are seconds."""

    sessions: int = 64  # clips held at a time
    memory_bytes: int = 4 << 30  # of their keys, values and features
    clip_s: float | None = None  # longest clip; None: what the model takes
    idle_s: float = 120.0  # without a request, after which a clip is forgotten
    body_bytes: int = 32 << 20  # of one request
    bodies_bytes: int = 256 << 20  # of all requests that are being received or answered
    head_s: float = 10.0  # that a request's head may take to arrive
    body_s: float = 20.0  # and its body
    answer_s: float = 60.0  # that a request may wait for the model
    text_tokens: int = 1024  # after a prompt
    draft_tokens: int = 64  # of one draft
    more_tokens: int = 64  # that a verification may generate after its own token
    requests_per_s: float = 1000.0  # of one address
    waiting: int = 256  # requests that wait for the model
    connections: int = 768  # open at a time


class Doorkeeper:
    """Lets requests in that bear the token, if there is one, and `requests_per_s` of one address; refuses others."""

    def __init__(self, token: str | None, requests_per_s: float) -> None:
        self._token = token.encode() if token else None
        self._rate = requests_per_s
        self._second, self._seen = 0, Counter[str]()  # requests of each address within it

    def admit(self, request: Request) -> None:
        """Checks a request by its head alone. Raises Refusal."""
        if self._second != (second := int(time.monotonic())):
            self._second, self._seen = second, Counter()
        address = request.client.host if request.client else ""
        self._seen[address] += 1
        if self._seen[address] > self._rate:
            raise Refusal(429, "too_many_requests", f"more than {self._rate:g} requests a second")
        if self._token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # compare_digest takes the same time wherever the two first differ
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token):
            raise Refusal(401, "unauthorized", "the token is missing or wrong")


class Bodies:
    """Reads the bodies of requests within a budget of memory; used by the event loop's thread alone."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._held = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts towards the budget until the end of the block. Raises Refusal."""
        limits, parts, size = self._limits, list[bytes](), 0
        try:
            try:
                async with asyncio.timeout(limits.body_s):
                    async for part in request.stream():
                        parts.append(part)
                        size += len(part)
                        self._held += len(part)
                        if size > limits.body_bytes:
                            raise Refusal(413, "too_large", f"a body may have {limits.body_bytes} bytes")
                        if self._held > limits.bodies_bytes:
                            raise Refusal(503, "busy", "the server holds as many bodies of requests as it may")
            except TimeoutError:
                raise Refusal(408, "too_slow", f"the body did not arrive within {limits.body_s:g} s") from None
            body = b"".join(parts)
            parts.clear()
            yield body
        finally:
            self._held -= size


class Listener(socket.socket):
    """A listening socket with room for a limited number of connections, in TLS handshakes or not.

    Where there is none, the oldest connection without a request under way is closed, of the address that has most (of
    IPv6, of the /64 network): who holds connections idle shuts nobody out.
    """

    def __init__(self, family: int, most: int) -> None:
        # With the protocol left to the system, asyncio does not see that it is TCP and leaves Nagle's algorithm on,
        # which holds an answer's body back until its head is acknowledged: 40 ms a request.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.busy: Callable[[], set[Any]] = set  # (host, port) of each connection with a request under way
        self._most = most
        self._opened: dict[Any, tuple[socket.socket, str]] = {}  # by (host, port), oldest first, with its network

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises ConnectionAbortedError if there is no room for it."""
        taken, address = super().accept()
        if len(self._opened) >= self._most:
            self._opened = {at: each for at, each in self._opened.items() if each[0].fileno() >= 0}
        if len(self._opened) >= self._most and not self._make_room():
            taken.close()
            raise ConnectionAbortedError("every connection has a request under way")
        found = ipaddress.ip_address(address[0].partition("%")[0])
        wide = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None
        self._opened[address[:2]] = taken, found.exploded[:19] if wide else str(found)
        return taken, address

    def _make_room(self) -> bool:
        crowd = Counter(network for _, network in self._opened.values()).most_common(1)[0][0]
        busy = self.busy()
        idle = [at for at in self._opened if at not in busy]
        if not idle:
            return False
        oldest, _ = self._opened.pop(next((at for at in idle if self._opened[at][1] == crowd), idle[0]))
        with suppress(OSError):  # its client has gone
            oldest.shutdown(socket.SHUT_RDWR)
        return True
