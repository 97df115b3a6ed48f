"""Requests to a vLLM server: repeated until they are answered, and believed only if the answer makes sense.

Nothing that is asked changes anything there, so every request may be repeated.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx

from specdec_cli.cloud.connection import Pauses, connect, sentence
from specdec_cli.cloud.transport import TRIES, Traffic, UnreachableError
from specdec_cli.cloud.vllm_wire import NonsenseError
from specdec_cli.errors import CloudError

_log = logging.getLogger(__name__)

_PIECE: Final = 1 << 16
_MOST_BYTES: Final = 1 << 26  # of an answer; 20 candidates for each of 30,000 positions take about this
_TRANSIENT: Final = frozenset({429, 500, 502, 503, 504})
_HINTS: Final = {
    401: "Set the variable that cloud.token_env names to the server's --api-key.",
    403: "Set the variable that cloud.token_env names to the server's --api-key.",
}

T = TypeVar("T")


@dataclass(slots=True)
class TimedTraffic(Traffic):
    """`Traffic`, and how long the server kept silent: between the last byte of a question and the answer's head, s."""

    silent_s: float = 0.0


class DeclinedError(CloudError):
    """The server understood, and said no.

    Attributes:
        status: HTTP's.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, hint=_HINTS.get(status))
        self.status = status
        self.about_clip = status in (400, 413, 422)

    @property
    def forgotten(self) -> bool:
        """Whether it was asked about a recording that it does not have, or no longer."""
        return self.status == 400 and "cache miss" in self.message.lower()


class _UnsoundError(Exception):
    """An answer that another try may better."""


class VllmHttp:
    """Connections to one server, kept open.

    Args:
        url: of the server.
        token: bearer token, or None.
        ca_file: certificates to trust in place of the public ones, or None.

    Raises:
        ConfigError: the certificates cannot be read.
    """

    def __init__(self, url: str, token: str | None, ca_file: str | None) -> None:
        self.url = url
        self._http = connect(url, token, ca_file, "application/json")
        self._shortest_s = math.inf

    async def ask(self, path: str, body: bytes | None, traffic: TimedTraffic, read: Callable[[bytes], T]) -> T:
        """What `read` makes of a good answer. The caller limits the time.

        Args:
            path: of the endpoint.
            body: JSON to post; None: get.
            traffic: is added to.
            read: raises NonsenseError for an answer that is none.

        Raises:
            DeclinedError: the server says no, and would again.
            UnreachableError: no good answer.
        """
        pauses = Pauses()
        for tried in range(1, TRIES + 1):
            try:
                return read(await self._once(path, body, traffic))
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, _UnsoundError) as error:
                traffic.trouble = sentence(error)
            except NonsenseError as error:
                traffic.trouble = f"the answer is nonsense: {error}"
            _log.debug("%s: %s", path, traffic.trouble)
            if tried < TRIES:
                await pauses.wait()
        raise UnreachableError(f"{self.url}: {traffic.trouble}")

    @property
    def round_trip_s(self) -> float:
        """The shortest silence so far, seconds: a round trip, and what the quickest answer took; 0 before any."""
        return 0.0 if self._shortest_s == math.inf else self._shortest_s

    async def _once(self, path: str, body: bytes | None, traffic: TimedTraffic) -> bytes:
        method, found = "GET" if body is None else "POST", bytearray()
        sending = _Sending(body or b"", traffic)
        headers = {"Content-Length": str(len(body))} if body else {}
        async with self._http.stream(method, path, content=sending if body else None, headers=headers) as response:
            silent_s = time.perf_counter() - sending.done_at
            traffic.silent_s += silent_s
            self._shortest_s = min(self._shortest_s, silent_s)
            async for chunk in response.aiter_raw():
                found += chunk
                traffic.bytes_down += len(chunk)
                if len(found) > _MOST_BYTES:
                    raise _UnsoundError("the answer is longer than any answer should be")
        if response.is_success:
            return bytes(found)
        said = f"status {response.status_code}: {_reason(bytes(found))}"
        if response.status_code in _TRANSIENT:
            raise _UnsoundError(said)
        raise DeclinedError(f"{self.url}{path} answers {said}", response.status_code)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()


class _Sending:
    """A body in pieces, each counted as it goes out: not at all where no connection comes about."""

    def __init__(self, body: bytes, traffic: Traffic) -> None:
        self._body = body
        self._traffic = traffic
        self.done_at = time.perf_counter()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), _PIECE):
            piece = self._body[at : at + _PIECE]
            self._traffic.bytes_up += len(piece)
            yield piece
        self.done_at = time.perf_counter()


def _reason(body: bytes) -> str:
    """What an error's body says, short enough for a message."""
    try:
        found = json.loads(body)
        said = found["error"]["message"] if "error" in found else found["detail"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no reason given"
    return "".join(sign for sign in " ".join(str(said).split()) if sign.isprintable())[:200]
