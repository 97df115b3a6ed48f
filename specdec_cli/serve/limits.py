"""What a server refuses: requests without the token, bodies beyond its room, and what cannot be a clip of its model."""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import torch
from starlette.exceptions import HTTPException
from starlette.requests import Request

from specdec_cli.cloud.http import MalformedError
from specdec_cli.models.processor import Processor, test_sound

_MEASURED_S: Final = 60.0  # of a longer clip, so much is measured, and counted as often as it takes


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Bounds of a server; `_s` are seconds."""

    sessions: int = 64  # clips held at a time
    memory_bytes: int = 4 << 30  # of their keys, values and features
    clip_s: float | None = None  # longest clip; None: what the model takes
    idle_s: float = 120.0  # without a request, after which a clip is forgotten
    body_bytes: int = 32 << 20  # of one request
    bodies_bytes: int = 256 << 20  # of all requests that are being received or answered
    body_s: float = 20.0  # that a request's body may take to arrive
    answer_s: float = 60.0  # that a request may wait for the model
    text_tokens: int = 1024  # after a prompt
    draft_tokens: int = 64  # of one draft
    more_tokens: int = 64  # that a verification may generate after its own token
    threads: int = 256  # requests that are under way at a time
    connections: int = 768  # open at a time


def has_token(token: str | None, request: Request) -> bool:
    """Whether the head of a request bears the token, where there is one."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # compare_digest takes the same time wherever the two first differ
    return token is None or (
        scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    )


class Bodies:
    """Reads the bodies of requests within a budget of memory; used by the event loop's thread alone."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._held = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts towards the budget until the end of the block. Raises HTTPException."""
        limits, parts, size = self._limits, list[bytes](), 0
        try:
            try:
                async with asyncio.timeout(limits.body_s):
                    async for part in request.stream():
                        parts.append(part)
                        size += len(part)
                        self._held += len(part)
                        if size > limits.body_bytes:
                            raise HTTPException(413, f"a body may have {limits.body_bytes} bytes")
                        if self._held > limits.bodies_bytes:
                            raise HTTPException(503, "the server holds as many bodies of requests as it may")
            except TimeoutError:
                raise HTTPException(408, f"the body did not arrive within {limits.body_s:g} s") from None
            body = b"".join(parts)
            parts.clear()
            yield body
        finally:
            self._held -= size


class ClipBounds:
    """Which tensors a clip of this model has, and the largest sizes and integers of them, measured on a test sound.

    `require` refuses others. Whether ids and features fit each other is for the model's forward to say.
    """

    def __init__(self, processor: Processor, longest_s: float) -> None:
        measured_s = min(max(longest_s, 1.0), _MEASURED_S)
        made = processor.prompt(test_sound(measured_s, processor.sampling_rate), "How?")
        self._placeholders, share = processor.placeholders, math.ceil(longest_s / measured_s)
        self._most = {name: share * number for name, number in self._numbers(made.ids, made.audio).items()}

    def require(self, ids: Sequence[int], tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises MalformedError unless ids and tensors may be those of a clip."""
        real = not any(values.is_complex() for values in tensors.values())
        found = self._numbers(ids, tensors) if real else {}
        fits = found.keys() == self._most.keys() and all(found[name] <= most for name, most in self._most.items())
        if not fits or found["placeholders"] == 0:
            raise MalformedError("ids or tensors are not those of a clip, or of a longer one than is allowed")

    def _numbers(self, ids: Sequence[int], tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        found = {"placeholders": sum(id_ in self._placeholders for id_ in ids)}
        for name, values in tensors.items():
            found |= {f"axis {axis} of {name}": size for axis, size in enumerate(values.shape)}
            if not values.is_floating_point() and values.numel():
                found |= {f"sum of {name}": int(values.sum()), f"largest of {name}": int(values.max())}
                found[f"negative in {name}"] = int((values < 0).sum())
        return found
