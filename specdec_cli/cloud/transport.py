"""One request to a verify server: repeated until it is answered, and believed only if the answer is whole.

Every request of the protocol may be repeated, so whatever looks like the link's fault is tried again: a connection
that is refused or reset, a server that is busy or fails, a body that was cut short or altered.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx

from specdec_cli.cloud.connection import Pauses, connect, sentence
from specdec_cli.cloud.protocol import (
    MAX_ANSWER_BYTES,
    Code,
    MalformedError,
    Message,
    Problem,
    content_digest,
    digest,
    parse,
)
from specdec_cli.errors import CloudError

_log = logging.getLogger(__name__)

TRIES: Final = 4
"""Of one request, over a link that fails. A server that says it is busy is asked again until the time is up."""

_CHUNK: Final = 1 << 16
_TRANSIENT: Final[frozenset[Code]] = frozenset({"busy", "too_many_requests"})
_HINTS: Final[dict[Code, str]] = {
    "unauthorized": "Set the variable that cloud.token_env names to the server's token.",
    "other_model": "Start anew: the server runs another model now.",
    "too_large": "Use shorter pieces (--segment) or a smaller --max-new-tokens, or raise the server's limits.",
}

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class RefusedError(CloudError):
    """The server understood, and said no."""

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(f"the cloud refuses: {message}", hint=_HINTS.get(code))
        self.code = code
        self.about_clip = code in ("malformed", "too_large")


class UnreachableError(CloudError):
    """No good answer came in time, or in as many tries as are made."""


@dataclass(slots=True)
class Traffic:
    """What requests have cost so far: bytes of bodies; and what went wrong last, for a message."""

    bytes_up: int = 0
    bytes_down: int = 0
    trouble: str = ""


class _Unsound(Exception):
    """An answer that another try may better."""

    def __init__(self, message: str, *, patient: bool = False) -> None:
        super().__init__(message)
        self.patient = patient


@dataclass(frozen=True, slots=True)
class Request:
    """What to send."""

    method: str
    path: str
    body: bytes = b""


class Transport:
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
        self._http = connect(url, token, ca_file, "application/octet-stream")

    async def fetch(self, request: Request, traffic: Traffic, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the body of a good answer. The caller limits the time.

        Args:
            request: may be sent several times.
            traffic: is added to.
            read: raises MalformedError for nonsense.

        Raises:
            RefusedError: the server says no, and would again.
            UnreachableError: no good answer.
        """
        pauses, tries = Pauses(), 0
        while True:
            try:
                return read(await self._once(request, traffic))
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, MalformedError) as error:
                traffic.trouble, patient = sentence(error), False
            except _Unsound as error:
                traffic.trouble, patient = str(error), error.patient
            _log.debug("%s %s: %s", request.method, request.path, traffic.trouble)
            tries += not patient
            if tries == TRIES:
                raise UnreachableError(f"{self.url}: {traffic.trouble}")
            await pauses.wait()

    async def _once(self, request: Request, traffic: Traffic) -> bytes:
        headers = {"Content-Length": str(len(request.body))}
        content = _counted(request.body, traffic) if request.body else None
        body = bytearray()
        async with self._http.stream(request.method, request.path, content=content, headers=headers) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                traffic.bytes_down += len(chunk)
                if len(body) > MAX_ANSWER_BYTES:
                    raise _Unsound("the answer is longer than any answer should be")
        return _checked(response, bytes(body), request)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()


async def _counted(body: bytes, traffic: Traffic) -> AsyncIterator[bytes]:
    """The body in pieces, each counted as it goes out: not at all where no connection comes about."""
    for at in range(0, len(body), _CHUNK):
        piece = body[at : at + _CHUNK]
        traffic.bytes_up += len(piece)
        yield piece


def _checked(response: httpx.Response, body: bytes, request: Request) -> bytes:
    """The body, if it is that of a good answer.

    Raises:
        RefusedError: a refusal that another try would not change.
        _Unsound: anything else.
    """
    status = response.status_code
    if response.headers.get("Content-Digest") != content_digest(body):
        raise _Unsound(f"what answers with status {status} is no verify server, or its answer was altered on the way")
    if response.is_success:
        return body
    try:
        problem = parse(Problem, body)
    except MalformedError:
        raise _Unsound(f"status {status} came without a reason") from None
    if problem.code in _TRANSIENT:
        raise _Unsound(problem.message, patient=True)
    if problem.code == "malformed" and problem.request != digest(request.body):
        raise _Unsound("the request was altered on the way")
    if problem.code == "model_failed":
        raise _Unsound(problem.message)
    raise RefusedError(problem.message, problem.code)
