"""Requests to a vLLM server, and what its answers mean.

One request verifies a block (vLLM's token-in, token-out endpoint): prompt, committed text and draft go in as token ids,
with one placeholder for the whole recording, and the server generates from there. With `prompt_logprobs` it also gives,
for every position of what went in, how likely that token was, its rank, and the likeliest ones. Positions count from
the end, since the placeholder has become many in between.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Annotated, Any, Final

import numpy as np
import numpy.typing as npt
import soundfile
from pydantic import BaseModel, ConfigDict, Field

from specdec_cli.cloud.connection import Reply, Request, UnsoundError, plain
from specdec_cli.cloud.http import RefusedError
from specdec_cli.cloud.protocol import MalformedError, parse

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"
VERSION: Final = "/version"

MOST_CANDIDATES: Final = 20
"""Likeliest tokens that a server gives of a position, unless it is started with another --max-logprobs."""

_TRANSIENT: Final = frozenset({429, 500, 502, 503, 504})
_NO_ENTRY: Final = frozenset({401, 403})
_LEAST_TOP_LOGPROB: Final = -20.0  # the likeliest of a million tokens has at least -14
_FULL_SCALE: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Recording:
    """The clip, as a request names it; `url` is a `data:` address that holds it, or None where the server has it."""

    uuid: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A text to score and continue.

    Attributes:
        ids: the prompt with one placeholder for the recording, then text and draft.
        length: tokens of it all, the recording's as many as they are.
        drafted: how many of the last ids are a draft, to be scored.
        tokens: most tokens to generate after them.
        candidates: likeliest tokens to list of each position.
    """

    ids: tuple[int, ...]
    length: int
    drafted: int
    tokens: int
    candidates: int

    def body(self, model: str, recording: Recording | None, stop_ids: Sequence[int]) -> bytes:
        """The request as JSON."""
        sampling: dict[str, Any] = {
            "temperature": 0,
            "max_tokens": self.tokens,
            "logprobs": self.candidates,
            "stop_token_ids": list(stop_ids),
            "ignore_eos": True,  # the same ids are among those above: only they count
            "detokenize": False,
        }
        if self.drafted:
            sampling["prompt_logprobs"] = self.candidates
        request: dict[str, Any] = {"model": model, "token_ids": self.ids, "sampling_params": sampling}
        if recording is not None:
            request["content_parts"] = [{"type": "audio_url", "url": recording.url, "uuid": recording.uuid}]
        return json.dumps(request, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Position:
    """The cloud's scores at one position.

    Attributes:
        candidates: natural log-probability of the likeliest tokens by id, best first; of equal ones the lowest id.
        own: that of the drafted token; None after the draft.
        complete: whether nothing that is at least as likely as `own` is missing among the candidates.
    """

    candidates: dict[int, float]
    own: float | None = None
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer that makes sense.

    Attributes:
        drafted: one position per drafted token.
        generated: the tokens after them, at least one.
        after: one position per generated token.
    """

    drafted: tuple[Position, ...]
    generated: tuple[int, ...]
    after: tuple[Position, ...]


def with_one_placeholder(ids: Sequence[int], placeholder: int) -> tuple[int, ...]:
    """A prompt as the server takes it: one placeholder in place of each run of them."""
    return tuple(id_ for at, id_ in enumerate(ids) if id_ != placeholder or at == 0 or ids[at - 1] != id_)


def data_url(samples: npt.NDArray[np.float32], rate: int) -> str:
    """Mono samples [n] of full scale 1.0 at `rate` Hz as a `data:` address that holds them without loss.

    FLAC where they are numbers of 16 bits, as those of a 16-bit recording at this rate are; else WAV of 32-bit floats.
    """
    scaled = samples * np.float32(_FULL_SCALE)  # a power of two: exact
    whole, buffer = scaled.astype(np.int16), BytesIO()
    exact = np.array_equal(whole.astype(np.float32), scaled)
    kind, subtype = ("flac", "PCM_16") if exact else ("wav", "FLOAT")
    soundfile.write(buffer, whole if exact else samples, rate, format=kind.upper(), subtype=subtype)
    return f"data:audio/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


class _Message(BaseModel):
    """Part of an answer, of which the rest does not matter; no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Version(_Message):
    """What answers at /version."""

    version: Annotated[str, Field(max_length=40)]


class Tokens(_Message):
    """What answers at /tokenize."""

    tokens: list[int]


class _Model(_Message):
    id: str
    max_model_len: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None


class Models(_Message):
    """What answers at /v1/models."""

    data: list[_Model]


class _Scored(_Message):
    logprob: float = Field(le=1e-3)
    rank: int | None = Field(default=None, ge=1)


class _Token(_Scored):
    token_id: int = Field(ge=0)


class _Generated(_Token):
    top_logprobs: list[_Token] = Field(min_length=1)


class _Logprobs(_Message):
    content: list[_Generated]


class _Choice(_Message):
    token_ids: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    logprobs: _Logprobs


class _Usage(_Message):
    prompt_tokens: int


class _Answer(_Message):
    choices: list[_Choice] = Field(min_length=1, max_length=1)
    usage: _Usage
    prompt_logprobs: list[dict[str, _Scored] | None] | None = None


def read_answer(body: bytes, question: Question) -> Scored:
    """The answer to a question.

    Raises:
        MalformedError: it is not one: of another shape or length, about other tokens, or with impossible numbers.
    """
    answer = parse(_Answer, body)
    if answer.usage.prompt_tokens != question.length:
        raise MalformedError(f"it read {answer.usage.prompt_tokens} tokens, and {question.length} were sent")
    drafted = _drafted(answer.prompt_logprobs or [], question)
    tokens, content = answer.choices[0].token_ids, answer.choices[0].logprobs.content
    if len(tokens) > question.tokens or len(content) != len(tokens):
        raise MalformedError(
            f"{len(tokens)} generated tokens with {len(content)} scores, and at most {question.tokens} were requested"
        )
    after = tuple(_position({each.token_id: each.logprob for each in scored.top_logprobs}) for scored in content)
    for token, scored in zip(tokens, content, strict=True):
        if token != scored.token_id:
            raise MalformedError(f"token {token} comes with the score of token {scored.token_id}")
    return Scored(drafted, tuple(tokens), after)


def _drafted(rows: Sequence[dict[str, _Scored] | None], question: Question) -> tuple[Position, ...]:
    if question.drafted == 0:
        return ()
    if len(rows) != question.length:
        raise MalformedError(f"{len(rows)} positions were scored, of {question.length}")
    found = []
    for token, row in zip(question.ids[-question.drafted :], rows[-question.drafted :], strict=True):
        own = (row or {}).get(str(token))
        if row is None or own is None or not all(id_.isascii() and id_.isdigit() and len(id_) < 11 for id_ in row):
            raise MalformedError(f"the drafted token {token} was not scored")
        listed = {int(id_): scored.logprob for id_, scored in row.items()}
        among = own.rank is not None and own.rank <= question.candidates
        if not among:
            del listed[token]  # it stands there because it was requested, after a gap
        found.append(_position(listed, own.logprob, complete=among))
    return tuple(found)


def _position(listed: dict[int, float], own: float | None = None, *, complete: bool = False) -> Position:
    ordered = dict(sorted(listed.items(), key=lambda item: (-item[1], item[0])))
    if not ordered or next(iter(ordered.values())) < _LEAST_TOP_LOGPROB:
        raise MalformedError("the likeliest token is impossible: the model's scores are not finite")
    return Position(ordered, own, complete)


def checked(url: str, request: Request, reply: Reply) -> bytes:
    """The body, if it is that of a good answer; see `http.Check`."""
    if 200 <= reply.status < 300:
        return reply.body
    answer = f"status {reply.status}: {_reason(reply.body)}"
    if reply.status in _TRANSIENT:
        raise UnsoundError(answer)
    hint = "Set the variable that cloud.token_env names to the server's --api-key."
    raise RefusedError(
        f"{url}{request.path} answers {answer}",
        hint=hint if reply.status in _NO_ENTRY else None,
        code=str(reply.status),
        about_clip=reply.status in (400, 413, 422),
    )


def _reason(body: bytes) -> str:
    """The reason in an error's body, short enough for a message."""
    try:
        found = json.loads(body)
        reason = found["error"]["message"] if "error" in found else found["detail"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no reason given"
    return plain(str(reason))
