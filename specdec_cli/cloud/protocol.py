"""What client and server say to each other, version 1: JSON messages, and numbers in binary behind them.

| request                        | body                                     | answer              |
|--------------------------------|------------------------------------------|---------------------|
| GET /v1/info                   |                                          | `Info`              |
| PUT /v1/sessions/{id}          | `Clip`, features, and a question's rows  | `Answer`            |
| POST /v1/sessions/{id}/verify  | `Question`, and its rows                 | `Answer`            |
| DELETE /v1/sessions/{id}       |                                          | 204                 |

A body is four bytes (length of the JSON, little-endian), the JSON, and the numbers: log-mel features in float16
[bins, frames]; under the rule `sampling` also the draft's distributions, see `pack_rows`. Every request may be
repeated: a session is named by the client, and a question carries the whole text, so the server needs no memory of
earlier questions to answer it. An answer names the digest of the question that it answers, and the header
Content-Digest (RFC 9530) gives that of the answer, so that a body altered on the way is noticed without TLS too.
Everything that is not an answer is a `Problem` with its code.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdec_cli.types import AcceptanceName

PROTOCOL: Final = 1
"""Both ends must speak the same."""

MAX_ANSWER_BYTES: Final = 1 << 16
"""No answer is longer."""

SESSION_ID: Final = r"[0-9a-f]{32}"
"""The client chooses it at random."""

_LENGTH: Final = 4

Code = Literal[
    "unauthorized",
    "unknown_session",
    "other_model",
    "malformed",
    "too_large",
    "too_slow",
    "too_many_requests",
    "busy",
    "model_failed",
    "not_found",
]
"""Why a request was not answered. unknown_session: send the clip again. busy, too_many_requests: try again later."""

TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]


class Message(BaseModel):
    """Base of all messages: frozen, strict, nothing unknown, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Limits(Message):
    """What a server refuses to go beyond."""

    body_bytes: int = Field(ge=0, description="length of a request's body")
    text_tokens: int = Field(ge=0, description="tokens behind the prompt, drafts included")
    draft_tokens: int = Field(ge=0, description="tokens of one draft")
    more_tokens: int = Field(ge=0, description="tokens that one verification may run on")


class Info(Message):
    """Who answers: enough to know whether its token ids, features and prompts mean what the client's mean."""

    protocol: int
    server: str = Field(max_length=100, description="version of specdec")
    model: str = Field(max_length=500, description="as the server's configuration names it")
    dtype: str = Field(max_length=50)
    device: str = Field(max_length=50)
    weights: str | None = Field(default=None, max_length=100, description="tells them from others of the same name")
    tokenizer: str = Field(max_length=100, description="fingerprint of its pieces and their ids")
    features: str = Field(max_length=100, description="fingerprint of the feature extractor's settings")
    prompt: str = Field(max_length=100, description="fingerprint of prompts that its chat template makes")
    identity: str = Field(max_length=100, description="all of it in one; a clip names the one that it was made for")
    vocab_size: int = Field(gt=0, description="leading token ids that may be used")
    eos_ids: list[TokenId] = Field(max_length=1000)
    context: int = Field(gt=0, description="positions, prompt and text together")
    window_s: float = Field(gt=0, description="longest clip, seconds")
    limits: Limits


class Rules(Message):
    """How the cloud scores and accepts: the part of a run's settings that concerns it."""

    rule: AcceptanceName
    temperature: float = Field(ge=0, le=1000)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    seed: int = Field(ge=0, lt=1 << 63)
    repetition_penalty: float = Field(gt=0, le=1000)
    no_repeat_ngram: int = Field(ge=0, le=1000)
    min_new_tokens: int = Field(ge=0)
    rank: int = Field(ge=1)
    prob: float = Field(ge=0, le=1)
    typical_epsilon: float = Field(gt=0, le=1)
    typical_delta: float = Field(gt=0, le=1)


class Question(Message):
    """Judge this draft, as the continuation of this text."""

    text: list[TokenId] = Field(description="all committed token ids")
    draft: list[TokenId] = Field(description="drafted ids, possibly none")
    more: int = Field(default=0, ge=0, description="tokens to generate behind the cloud's own token")
    rows: list[int] | None = Field(
        default=None, description="rule sampling: possible tokens at each drafted one, whose distributions follow"
    )


class Clip(Message):
    """Hear this clip, and answer the first question about it."""

    identity: str = Field(max_length=100, description="`Info.identity` of the server that the clip was made for")
    prompt_ids: list[TokenId] = Field(min_length=1, description="the prompt, one placeholder per audio token")
    bins: int = Field(gt=0, le=1000, description="mel bins")
    frames: int = Field(gt=0, description="feature frames")
    capacity: int = Field(gt=0, description="most tokens behind the prompt at any time")
    vocab_size: int = Field(gt=0, description="ids from here on are never scored")
    stop_ids: list[TokenId] = Field(max_length=1000, description="nothing is generated behind any of these")
    rules: Rules
    question: Question | None = Field(default=None, description="null: only hear it")


class Judgement(Message):
    """The answer to a question; see `decoding.acceptance.Verdict`."""

    accepted: int = Field(ge=0)
    token: TokenId
    more: list[TokenId] = Field(default=[])


class Work(Message):
    """What the model has done for the session; see `types.ModelWork`."""

    encoder_passes: int = Field(ge=0)
    forwards: int = Field(ge=0)
    encoder_ms: float = Field(ge=0)
    prefill_ms: float = Field(ge=0)
    step_ms: float = Field(ge=0)
    prompt_tokens: int = Field(ge=0)
    fed_tokens: int = Field(ge=0)


class Answer(Message):
    """What came of a clip or a question."""

    request: str = Field(max_length=64, description="`digest` of the request's body")
    judgement: Judgement | None = Field(description="null: nothing was asked")
    work: Work
    cloud_ms: float = Field(ge=0, description="from the whole request to the answer, waiting included, ms")


class Problem(Message):
    """Why there is no answer."""

    code: Code
    message: str = Field(max_length=2000)
    request: str = Field(default="", max_length=64, description="`digest` of the body that came; empty: not read")


class MalformedError(ValueError):
    """A body that is not what it should be; the message never quotes it."""


M = TypeVar("M", bound=Message)


def pack(message: Message, *numbers: bytes) -> bytes:
    """A body: the message, and the numbers behind it."""
    text = message.model_dump_json(exclude_none=True).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "little"), text, *numbers))


def unpack(kind: type[M], body: bytes) -> tuple[M, memoryview]:
    """The message at the head of a body, and the bytes behind it.

    Raises:
        MalformedError: it is not one of that kind.
    """
    length = int.from_bytes(body[:_LENGTH], "little")
    if len(body) < _LENGTH + length:
        raise MalformedError("the body is shorter than it says")
    return parse(kind, body[_LENGTH : _LENGTH + length]), memoryview(body)[_LENGTH + length :]


def parse(kind: type[M], text: bytes) -> M:
    """The message that `text` spells.

    Raises:
        MalformedError: names the first field that is wrong, and no value.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in detail["loc"][:4])
        raise MalformedError(f"{kind.__name__} {place or 'as a whole'}: {detail['msg'][:200]}") from None


def digest(body: bytes) -> str:
    """Names a body: half of its SHA-256, hexadecimal."""
    return hashlib.sha256(body).hexdigest()[:32]


def content_digest(body: bytes) -> str:
    """The value of the header Content-Digest for a body (RFC 9530)."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def pack_features(values: npt.NDArray[np.float32]) -> bytes:
    """Log-mel features [bins, frames] in float16, half of the bytes and exact to about a thousandth."""
    return np.ascontiguousarray(values, dtype="<f2").tobytes()


def unpack_features(data: memoryview, bins: int, frames: int) -> npt.NDArray[np.float32]:
    """Float32 features [bins, frames] out of exactly so many float16 values.

    Raises:
        MalformedError: another number of bytes, or a value that is not finite.
    """
    if len(data) != 2 * bins * frames:
        raise MalformedError(f"{2 * bins * frames} bytes of features were announced, and {len(data)} came")
    values = np.frombuffer(data, dtype="<f2").reshape(bins, frames).astype(np.float32)
    if not np.isfinite(values).all():
        raise MalformedError("the features are not finite")
    return values


def pack_rows(rows: npt.NDArray[np.float32]) -> tuple[list[int], bytes]:
    """Distributions [m, vocab]: how many tokens each gives a chance, and for each row their ids (uint32), then their
    probabilities (float32), which are exact: the rule divides by them and subtracts them."""
    counts: list[int] = []
    parts: list[bytes] = []
    for row in rows:
        (ids,) = row.nonzero()
        counts.append(len(ids))
        parts += [ids.astype("<u4").tobytes(), row[ids].astype("<f4").tobytes()]
    return counts, b"".join(parts)


def rows_bytes(counts: Sequence[int]) -> int:
    """Length of what `pack_rows` gives."""
    return 8 * sum(counts)


def unpack_rows(data: memoryview, counts: Sequence[int], vocab_size: int) -> npt.NDArray[np.float32]:
    """The distributions [m, vocab].

    Raises:
        MalformedError: another number of bytes, an id out of range, or what is no distribution.
    """
    if any(not 1 <= count <= vocab_size for count in counts) or len(data) != rows_bytes(counts):
        raise MalformedError("the draft's distributions are not as long as announced")
    rows = np.zeros((len(counts), vocab_size), dtype=np.float32)
    at = 0
    for row, count in zip(rows, counts, strict=True):
        ids = np.frombuffer(data[at : at + 4 * count], dtype="<u4")
        values = np.frombuffer(data[at + 4 * count : at + 8 * count], dtype="<f4")
        at += 8 * count
        if int(ids.max()) >= vocab_size or not bool(((values > 0) & (values <= 1)).all()):
            raise MalformedError("the draft's distributions hold what is no probability")
        row[ids] = values
        if not 0.99 < float(row.sum()) < 1.01:
            raise MalformedError("a distribution of the draft does not add up to 1")
    return rows
