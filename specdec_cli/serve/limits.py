"""What a server refuses: requests without the token, too many of them, and bodies that are too large or too slow."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from specdec_cli.cloud.protocol import Code

_KNOWN_CLIENTS: Final = 10_000


class Refusal(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        code: for the client's program.
        message: for a person; never quotes what was sent.

    Attributes:
        request: digest of the body, where it was read.
    """

    def __init__(self, status: int, code: Code, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code: Code = code
        self.message = message
        self.request = ""


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Bounds of a server.

    Attributes:
        sessions: clips held at a time.
        memory_bytes: of their keys, values and features.
        clip_s: longest clip, seconds; None: what the model takes.
        idle_s: seconds without a request after which a clip is forgotten.
        body_bytes: length of a request.
        bodies_bytes: of all requests that are being received or answered.
        head_s, body_s: seconds that a request's head and body may take to arrive.
        answer_s: seconds that a request may wait for the model.
        text_tokens: tokens after a prompt.
        draft_tokens: tokens of a draft.
        more_tokens: tokens that a verification may generate after its own token.
        requests_per_s: of one address, on average; twice as many at once.
        waiting: requests that wait for the model.
        connections: open at a time.
        connections_per_address: of these, from one address.
    """

    sessions: int = 64
    memory_bytes: int = 4 << 30
    clip_s: float | None = None
    idle_s: float = 120.0
    body_bytes: int = 32 << 20
    bodies_bytes: int = 256 << 20
    head_s: float = 10.0
    body_s: float = 20.0
    answer_s: float = 60.0
    text_tokens: int = 1024
    draft_tokens: int = 64
    more_tokens: int = 64
    requests_per_s: float = 1000.0
    waiting: int = 256
    connections: int = 768
    connections_per_address: int = 256


class Doorkeeper:
    """Lets requests in, or raises Refusal.

    Args:
        token: that every request must bear; None: none is needed.
        requests_per_s: of one address.
        clock: seconds, monotonic.
    """

    def __init__(self, token: str | None, requests_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token.encode() if token else None
        self._rate = requests_per_s
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> (requests left, as of when)

    async def admit(self, request: Request) -> None:
        """Checks a request by its head alone.

        Raises:
            Refusal: too many of that address, or not the token.
        """
        self._count(request.client.host if request.client else "")
        if self._token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # compare_digest takes the same time wherever the two first differ
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token):
            raise Refusal(401, "unauthorized", "the token is missing or wrong")

    def _count(self, address: str) -> None:
        now, most = self._clock(), 2 * self._rate
        left, then = self._left.pop(address, (most, now))
        left = min(left + (now - then) * self._rate, most)
        self._left[address] = (max(left - 1, 0.0), now)
        if len(self._left) > _KNOWN_CLIENTS:
            self._left.popitem(last=False)
        if left < 1:
            raise Refusal(429, "too_many_requests", f"more than {self._rate:g} requests a second")


class Bodies:
    """Reads the bodies of requests within a budget of memory; used by the event loop's thread alone."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._held = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts towards the budget until the end of the block.

        Raises:
            Refusal: too long, too slow, or beyond the budget.
        """
        limits, parts, size = self._limits, list[bytes](), 0
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced[:20]) > limits.body_bytes:
            raise Refusal(413, "too_large", f"a body may have {limits.body_bytes} bytes")
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
