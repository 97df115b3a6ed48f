"""What a vLLM server is asked, and what its answers mean.

One request verifies a block (vLLM's token-in, token-out endpoint): prompt, committed text and draft go in as token ids,
with one placeholder for the whole recording, and the server generates from there. With `prompt_logprobs` it also tells
for every position of what went in how likely that token was, its rank, and the likeliest ones. Positions count from
the end, since the placeholder has become many in between.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"
VERSION: Final = "/version"

MOST_CANDIDATES: Final = 20
"""Likeliest tokens that a server tells of a position, unless it is started with another --max-logprobs."""

_LEAST_TOP_LOGPROB: Final = -20.0  # the likeliest of a million tokens has at least -14


class NonsenseError(Exception):
    """An answer that cannot be one to what was asked."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The clip, as a request names it.

    Attributes:
        uuid: under which the server keeps it.
        url: `data:` address that holds it; None: the server has it.
    """

    uuid: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask of a text.

    Attributes:
        ids: the prompt with one placeholder for the recording, then text and draft.
        length: tokens of it all, the recording's as many as they are.
        drafted: how many of the last ids are a draft, to be scored.
        tokens: most tokens to generate behind them.
        candidates: likeliest tokens wanted of each position.
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
    """What the cloud thinks of one position.

    Attributes:
        candidates: natural log-probability of the likeliest tokens by id, best first; of equal ones the lowest id.
        own: that of the drafted token; None behind the draft.
        complete: whether nothing that is at least as likely as `own` is missing among the candidates.
    """

    candidates: dict[int, float]
    own: float | None = None
    complete: bool = False

    def best(self, banned: frozenset[int], vocab_size: int) -> int | None:
        """The likeliest token that may be said; None if none of the candidates may."""
        return next((id_ for id_ in self.candidates if id_ < vocab_size and id_ not in banned), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that makes sense.

    Attributes:
        drafted: one position per drafted token.
        generated: the tokens behind them, at least one.
        behind: one position per generated token.
    """

    drafted: tuple[Position, ...]
    generated: tuple[int, ...]
    behind: tuple[Position, ...]


def with_one_placeholder(ids: Sequence[int], placeholders: Sequence[int]) -> tuple[int, ...]:
    """A prompt as the server wants it: one placeholder in place of each run of them."""
    return tuple(id_ for at, id_ in enumerate(ids) if id_ not in placeholders or at == 0 or ids[at - 1] != id_)


class _Message(BaseModel):
    """Part of an answer, of which the rest does not matter; no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


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


def read_reply(body: bytes, question: Question) -> Reply:
    """The answer to a question.

    Raises:
        NonsenseError: it is not one: of another shape or length, about other tokens, or with impossible numbers.
    """
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:6]))
        raise NonsenseError(f"{where}: {first['msg']}") from None
    if answer.usage.prompt_tokens != question.length:
        raise NonsenseError(f"it read {answer.usage.prompt_tokens} tokens, and {question.length} were sent")
    drafted = _drafted(answer.prompt_logprobs or [], question)
    choice = answer.choices[0]
    if len(choice.token_ids) > question.tokens or len(choice.logprobs.content) != len(choice.token_ids):
        raise NonsenseError(
            f"{len(choice.token_ids)} generated tokens with {len(choice.logprobs.content)} scores, "
            f"and at most {question.tokens} were asked for"
        )
    behind = tuple(
        _position({token.token_id: token.logprob for token in scored.top_logprobs})
        for scored in choice.logprobs.content
    )
    for token, scored in zip(choice.token_ids, choice.logprobs.content, strict=True):
        if token != scored.token_id:
            raise NonsenseError(f"token {token} comes with the score of token {scored.token_id}")
    return Reply(drafted, tuple(choice.token_ids), behind)


def _drafted(rows: Sequence[dict[str, _Scored] | None], question: Question) -> tuple[Position, ...]:
    if question.drafted == 0:
        return ()
    if len(rows) != question.length:
        raise NonsenseError(f"{len(rows)} positions were scored, of {question.length}")
    found = []
    for token, row in zip(question.ids[-question.drafted :], rows[-question.drafted :], strict=True):
        own = (row or {}).get(str(token))
        if row is None or own is None or not all(id_.isascii() and id_.isdigit() for id_ in row):
            raise NonsenseError(f"the drafted token {token} was not scored")
        listed = {int(id_): scored.logprob for id_, scored in row.items()}
        among = own.rank is not None and own.rank <= question.candidates
        if not among:
            del listed[token]  # it stands there because it was asked about, behind a gap
        found.append(_position(listed, own.logprob, complete=among))
    return tuple(found)


def _position(listed: dict[int, float], own: float | None = None, *, complete: bool = False) -> Position:
    ordered = dict(sorted(listed.items(), key=lambda item: (-item[1], item[0])))
    if not ordered or next(iter(ordered.values())) < _LEAST_TOP_LOGPROB:
        raise NonsenseError("the likeliest token is impossible: the model's scores are not finite")
    return Position(ordered, own, complete)
