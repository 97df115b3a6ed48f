"""What a server refuses: requests without the token, bodies beyond its room, and what cannot be a clip of its model."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import torch
from starlette.requests import Request

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Code, ErrorReply, Shape
from specdec_cli.models.processor import Processor, test_sound

_SOUNDS_S: Final = (1.0, 61.0)  # the second one takes three windows of 30 s where a processor cuts


class Refusal(Exception):
    """A request that is refused: the status of HTTP and an `ErrorReply`, whose message never quotes what was sent."""

    def __init__(self, status: int, code: Code, message: str) -> None:
        super().__init__(message)
        self.status, self.reply = status, ErrorReply(code=code, message=message[:2000])


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
    waiting: int = 256  # requests that wait for the model
    connections: int = 768  # open at a time


def require_token(token: str | None, request: Request) -> None:
    """Checks a request by its head alone. Raises Refusal if it does not bear the token; None: there is none."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # compare_digest takes the same time wherever the two first differ
    if token is not None and not (
        scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    ):
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


class Layout:
    """What a model's processor makes of a clip, by its length: names, kinds and shapes of tensors, and their integers.

    It is measured once on two sounds and interpolated, and bounds what a client may send before anything is decoded.
    Whether ids and features fit each other to the last frame is for the model's forward to say.
    """

    def __init__(self, processor: Processor) -> None:
        rate, longest_s = processor.sampling_rate, min(_SOUNDS_S[1], processor.window_s)
        self._placeholders = processor.placeholders
        sounds = [test_sound(seconds, rate) for seconds in (min(_SOUNDS_S[0], longest_s / 2), longest_s)]
        self._samples = [len(sound) for sound in sounds]
        made = [processor.prompt(sound, "How?") for sound in sounds]
        self._sizes = [
            self._counted(
                each.ids, ((name, values.is_floating_point(), values.shape) for name, values in each.audio.items())
            )
            for each in made
        ]
        self._integers = [_integers(each.audio) for each in made]

    def require(self, samples: int, ids: Sequence[int], shapes: Mapping[str, Shape]) -> None:
        """Raises MalformedError unless ids and headers of tensors may be those of a clip of so many samples."""
        tensors = ((name, each.floats, each.shape) for name, each in shapes.items())
        self._require(samples, self._counted(ids, tensors), *self._sizes)

    def require_values(self, samples: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises MalformedError where integers, such as masks, are not those of a clip of so many samples."""
        self._require(samples, _integers(tensors), *self._integers)

    def _counted(self, ids: Sequence[int], tensors: Iterator[tuple[str, bool, Sequence[int]]]) -> dict[str, int]:
        sizes = {"placeholders": sum(id_ in self._placeholders for id_ in ids)}
        for name, floats, shape in tensors:
            sizes[f"axes of {name}, {'floats' if floats else 'integers'}"] = len(shape)
            sizes |= {f"axis {axis} of {name}": size for axis, size in enumerate(shape)}
        return sizes

    def _require(self, samples: int, found: dict[str, int], one: dict[str, int], two: dict[str, int]) -> None:
        """Each number lies on the line through those of the two sounds, give or take that of the first."""
        first, second = self._samples
        share = (samples - first) / (second - first)
        for name in found.keys() | one.keys():
            value, low, high = found.get(name, -1), one.get(name, -1), two.get(name, -1)
            slack = low + 2 if low != high else 0
            if value < 0 or low < 0 or abs(value - low - share * (high - low)) > slack or (slack and value == 0):
                raise MalformedError(f"ids or tensors are not those of a clip of {samples} samples")


def _integers(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Sum and largest of each tensor of integers; -1 for one that holds negative ones."""
    sizes: dict[str, int] = {}
    for name, values in tensors.items():
        if not values.is_floating_point():
            valid = int(values.min()) >= 0
            sizes |= {f"sum of {name}": int(values.sum()) if valid else -1, f"largest of {name}": int(values.max())}
    return sizes
