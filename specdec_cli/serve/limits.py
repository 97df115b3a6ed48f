"""What a server refuses: requests without the token, bodies beyond its room, and what cannot be a clip of its model."""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from starlette.requests import Request

from specdec_cli.cloud.http import MalformedError
from specdec_cli.errors import SpecdecError
from specdec_cli.models.processor import Processor, Prompt, test_sound

_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_DTYPES: Final = frozenset({*_FLOATS, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
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
    head_s: float = 20.0  # that a connection may take to begin its first request, and a request's head to arrive
    body_s: float = 20.0  # that a request's body may take to arrive
    answer_s: float = 60.0  # that a verification may wait for the model
    caption_s: float = 600.0  # that a recording may wait for its next block
    recording_s: float = 3600.0  # longest recording to caption, where `clip_s` says nothing
    fetch_s: float = 30.0  # that a recording may take to be fetched
    audio_hosts: frozenset[str] = frozenset()  # names and addresses that recordings are fetched from
    waiting: int = 64  # recordings that wait beside those that are being captioned
    text_tokens: int = 1024  # after a prompt
    draft_tokens: int = 64  # of one draft
    run_on_tokens: int = 64  # that a verification may generate after its own token
    threads: int = 256  # requests that are under way at a time
    connections: int = 768  # open at a time


def has_token(token: str, request: Request) -> bool:
    """Whether the head of a request bears the token."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # compare_digest takes the same time wherever the two first differ
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())


class ClipBounds:
    """Which tensors a clip of this model has, and the largest sizes and integers of them, measured on a test sound.

    `require` refuses others. Whether ids and features fit each other is for the model's forward to say; where that
    fails, `fit` says whether the clip is to blame.
    """

    def __init__(self, processor: Processor, longest_s: float) -> None:
        self._processor, self._placeholders = processor, processor.placeholders
        measured_s = min(max(longest_s, 1.0), _MEASURED_S)
        made, share = self._made(measured_s), math.ceil(longest_s / measured_s)
        self._is_float = {name: values.is_floating_point() for name, values in made.audio.items()}
        self._most = {name: share * number for name, number in self._numbers(made.ids, made.audio).items()}

    def require(self, ids: Sequence[int], tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises MalformedError unless ids and tensors may be those of a clip."""
        is_float = {name: values.is_floating_point() for name, values in tensors.items()}
        known = is_float == self._is_float and all(values.dtype in _DTYPES for values in tensors.values())
        # integers are looked at once there are few enough: their sum takes eight bytes of each
        found = self._numbers(ids, tensors) if known and self._may_be(_sizes(tensors)) else {}
        if found.keys() == self._most.keys() and self._may_be(found) and found["placeholders"] > 0:
            return
        raise MalformedError("ids or tensors are not those of a clip, or of a longer one than is allowed")

    def fit(self, ids: Sequence[int], tensors: Mapping[str, torch.Tensor], samples: int) -> bool:
        """Whether ids and tensors have the sizes and integers that this model's processor gives so many samples."""
        try:
            made = self._made(samples / self._processor.sampling_rate)
        except SpecdecError:  # nothing can be made of so few
            return False
        return self._numbers(ids, tensors) == self._numbers(made.ids, made.audio)

    def _made(self, seconds: float) -> Prompt:
        return self._processor.prompt(test_sound(seconds, self._processor.sampling_rate), "How?")

    def _may_be(self, found: Mapping[str, int]) -> bool:
        return all(number <= self._most.get(name, -1) for name, number in found.items())

    def _numbers(self, ids: Sequence[int], tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
        found = {"placeholders": sum(id_ in self._placeholders for id_ in ids), **_sizes(tensors)}
        for name, values in tensors.items():
            if not values.is_floating_point() and values.numel():
                found |= {f"sum of {name}": int(values.sum()), f"largest of {name}": int(values.max())}
                found[f"negative in {name}"] = int((values < 0).sum())
        return found


def _sizes(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    return {
        f"axis {axis} of {name}": size for name, values in tensors.items() for axis, size in enumerate(values.shape)
    }
