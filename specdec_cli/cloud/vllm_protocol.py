"""Requests to a vLLM server's token-in, token-out endpoint, and its answers.

A request holds prompt, committed text and draft as token ids, with one placeholder for the whole recording, and the
server generates after them. With `prompt_logprobs` it also lists, for every position of the request, the
log-probability of that token, its rank, and the most likely tokens. Positions count from the end, since one placeholder
becomes many.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from pydantic import AliasPath, BaseModel, ConfigDict, Field, TypeAdapter

from specdec_cli.cloud.http import MalformedError, checked, parse
from specdec_cli.decoding.accept import Synonyms
from specdec_cli.decoding.rows import CANDIDATES, TokenEvidence, named
from specdec_cli.types import Candidates

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"

MOST_CANDIDATES: Final = 20  # most likely tokens that a server lists, unless it is started with other --max-logprobs
MOST_BYTES: Final = 1 << 20  # of an answer without candidates
_MOST_GENERATED_BYTES: Final = 1 << 26  # of an answer with candidates
_CANDIDATE_BYTES: Final = 256  # vLLM writes about 90
_MOST_POSITIONS: Final = 1 << 17  # of a prompt with its recording
_MOST_LISTED: Final = 256  # candidates of a position
_LEAST_TOP: Final = 2e-9  # least probability of the most likely token; among a million tokens it is 1e-6 or more


class GenerateRequest(NamedTuple):
    """A text to score and continue."""

    ids: tuple[int, ...]  # the prompt with one placeholder for the recording, then text and draft
    length: int | None  # tokens of prompt, text and draft, all of the recording's included; None: not known yet
    drafted: int  # how many of the last ids are a draft, to be scored
    tokens: int  # most tokens to generate after them
    size: int  # ids from `size` on may not be generated
    banned: Collection[int] = ()  # further ids that may not be generated
    candidates: int = MOST_CANDIDATES  # most likely tokens to list at each position
    drawing: tuple[int, int] | None = None  # top_k and seed, to draw each token from so many; None: the most likely

    @property
    def most_bytes(self) -> int:
        """Most bytes that an answer may have."""
        positions = self.tokens + (0 if not self.drafted else self.length or _MOST_POSITIONS)
        return min(MOST_BYTES + positions * (self.candidates + 2) * _CANDIDATE_BYTES, _MOST_GENERATED_BYTES)

    def body(self, model: str, stop_ids: Collection[int], **more: Any) -> bytes:
        """The request as JSON; `more` are further fields of it."""
        sampling: dict[str, Any] = {
            "temperature": 0,
            "max_tokens": self.tokens,
            "logprobs": self.candidates,
            "stop_token_ids": sorted(stop_ids),
            "ignore_eos": True,  # the same ids are among those above: only they count
            "detokenize": False,
        }
        if self.drawing is not None:
            sampling |= {"temperature": 1, "top_k": self.drawing[0], "seed": self.drawing[1]}
        if self.drafted:
            sampling["prompt_logprobs"] = self.candidates
        request = {"model": model, "token_ids": self.ids, "sampling_params": sampling, **more}
        return json.dumps(request, separators=(",", ":")).encode()


class Likely(NamedTuple):
    """A position of a text: its most likely tokens that may be generated, and the number of all others."""

    probabilities: dict[int, float]  # by id, descending; of equal ones the lowest id first
    others: int

    @classmethod
    def of(
        cls, listed: Mapping[int, float], size: int, banned: Collection[int] = (), most: int = MOST_CANDIDATES
    ) -> Likely:
        """From the `most` likely of `listed`, id -> log-probability: a drafted token is listed beside them.

        Ids from `size` on and banned ones are left out, since they are not generated.
        """
        ranked = sorted(listed.items(), key=lambda item: (-item[1], item[0]))[:most]
        every = cls({id_: math.exp(min(logprob, 0.0)) for id_, logprob in ranked}, 0)
        found = every.without({id_ for id_, _ in ranked if id_ >= size or id_ in banned})
        return found._replace(others=max(size - len(banned) - len(found.probabilities), 1))

    def without(self, ids: Collection[int]) -> Likely:
        """The position if some of its listed tokens cannot be generated: the others share their probability."""
        kept = {id_: p for id_, p in self.probabilities.items() if id_ not in ids}
        gone = sum(p for id_, p in self.probabilities.items() if id_ in ids)
        whole = max(1.0 - gone, sum(kept.values()), _LEAST_TOP)
        return Likely({id_: p / whole for id_, p in kept.items()}, self.others)

    @property
    def best(self) -> int:
        return next(iter(self.probabilities))

    def top(self, count: int) -> Candidates:
        """The `count` most likely tokens, as `decoding.rows.named` gives them."""
        return named(tuple(self.probabilities.items())[:count])

    def evidence(self, id_: int, groups: Synonyms) -> TokenEvidence:
        """The evidence on a chosen token.

        The entropy is an upper bound: the remaining probability lies evenly on all tokens that are not listed. For the
        lower bound it lies on as few tokens as possible, none likelier than the last listed one. For `class_entropy` it
        counts as that of tokens in no class.
        """
        probabilities, ps = self.probabilities, list(self.probabilities.values())
        listed, least, rest = _nats(*ps), ps[-1], max(1.0 - sum(ps), 0.0)
        highest = listed + (rest * math.log(self.others / rest) if rest > 0 else 0.0)
        whole = int(rest / least) if least > 0 else 0
        lowest = listed + whole * _nats(least) + _nats(max(rest - whole * least, 0.0))
        sums = {-1: rest}
        for token, p in probabilities.items() if groups else ():
            group = groups.get(token, -1)
            sums[group] = sums.get(group, 0.0) + p
        own = probabilities[id_]
        return TokenEvidence(
            id_,
            entropy=highest,
            margin=ps[0] - (ps[1] if len(ps) > 1 else min(rest, ps[0])),
            logprob=math.log(own) if own > 0 else -math.inf,
            candidates=tuple(probabilities.items())[:CANDIDATES],
            class_entropy=_nats(*sums.values()) if groups else 0.0,
            least_entropy=min(lowest, highest),
        )


class Scored(NamedTuple):
    """A valid answer."""

    likely: tuple[Likely, ...]  # at each drafted token, and at each generated one
    generated: tuple[int, ...]  # after the draft; ends with the next best in place of the first banned token, if any
    forwards: int  # tokens that the server generated, those after a banned one included
    length: int  # tokens of the request, all of the recording's included


class _Message(BaseModel):
    """Part of an answer: strict, no NaN, no infinity; further fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Tokens(_Message):
    tokens: Annotated[list[int], Field(fail_fast=True)]


class _Served(_Message):
    id: Annotated[str, Field(max_length=1000)]


class ServedModels(_Message):
    data: Annotated[list[_Served], Field(fail_fast=True, max_length=10_000)]


class _Logprob(_Message):
    logprob: float = Field(le=1e-3)


class _Token(_Logprob):
    token_id: int = Field(ge=0)


class _Generated(_Token):
    top_logprobs: Annotated[list[_Token], Field(fail_fast=True, min_length=1, max_length=_MOST_LISTED)]


class _Answer(_Message):
    prompt_tokens: int = Field(validation_alias=AliasPath("usage", "prompt_tokens"))
    prompt_logprobs: Annotated[list[Any], Field(max_length=_MOST_POSITIONS)] | None = None
    generated: Annotated[list[_Generated], Field(fail_fast=True, min_length=1)] = Field(
        validation_alias=AliasPath("choices", 0, "logprobs", "content")
    )


_candidates: Final = TypeAdapter(dict[Annotated[int, Field(strict=False, ge=0)], _Logprob]).validate_python


def _listed(row: Any) -> dict[int, float]:
    """Id -> log-probability of a position's candidates, validated only for drafted positions. Raises MalformedError."""
    if not isinstance(row, dict) or len(row) > _MOST_LISTED:
        raise MalformedError(f"a position of prompt_logprobs is none, or lists more than {_MOST_LISTED} candidates")
    return {id_: each.logprob for id_, each in checked("prompt_logprobs", _candidates, row).items()}


def read_answer(body: bytes, request: GenerateRequest) -> Scored:
    """The answer to a request. Raises MalformedError if its shape, length, tokens or numbers cannot be right.

    A drafted position may be empty where fewer than `MOST_CANDIDATES` were asked for: none of them may be generated.
    """
    answer = parse(_Answer, body)
    read, scored, written = answer.prompt_tokens, answer.prompt_logprobs or [], answer.generated
    length = request.length or max(read, len(request.ids))
    if read != length or (request.drafted and len(scored) != length) or len(written) > request.tokens:
        found = f"{read} tokens were read, {len(scored)} scored and {len(written)} generated"
        raise MalformedError(f"{found}, of {length} and {request.tokens}")
    drafted = request.ids[len(request.ids) - request.drafted :]
    listed = [_listed(row) for row in scored[length - request.drafted :]] if drafted else []
    if not all(token in row for token, row in zip(drafted, listed, strict=True)):
        raise MalformedError("a drafted token was not scored")
    listed += ({each.token_id: each.logprob for each in token.top_logprobs} for token in written)
    likely = [Likely.of(each, request.size, request.banned, request.candidates) for each in listed]
    tokens = list[int]()
    # of few listed tokens all may be banned, or beyond the vocabulary: rows of padding
    known = [row for row in likely if row.probabilities or request.candidates >= MOST_CANDIDATES]
    if min((max(row.probabilities.values(), default=0.0) for row in known), default=1.0) < _LEAST_TOP:
        raise MalformedError("no token that may be generated is likely, or the model's scores are not finite")
    for token, row in zip(written, likely[request.drafted :], strict=True):
        if not row.probabilities:
            break
        tokens.append(token.token_id if token.token_id in row.probabilities else row.best)
        if tokens[-1] != token.token_id:
            break
    return Scored(tuple(likely[: request.drafted + len(tokens)]), tuple(tokens), len(written), length)


def data_url(samples: npt.NDArray[np.float32], rate: int) -> str:
    """Mono samples [n] of full scale 1.0 at `rate` Hz as a `data:` URL, without loss.

    FLAC if they fit 16 bits, as in a 16-bit recording at this rate; else WAV of 32-bit floats.
    """
    scaled = samples * np.float32(1 << 15)  # a power of two: exact
    whole, buffer = scaled.astype(np.int16), BytesIO()
    exact = np.array_equal(whole.astype(np.float32), scaled)
    kind, subtype = ("flac", "PCM_16") if exact else ("wav", "FLOAT")
    soundfile.write(buffer, whole if exact else samples, rate, format=kind.upper(), subtype=subtype)
    return f"data:audio/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def messages(instruction: str, system: str | None, rate: int) -> list[dict[str, Any]]:
    """A chat about a second of silence at `rate` Hz: the server makes its prompt."""
    content: list[dict[str, Any]] = [
        {"type": "audio_url", "audio_url": {"url": data_url(np.zeros(rate, np.float32), rate)}}
    ]
    content += [{"type": "text", "text": instruction}] if instruction else []
    turns: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    return [*turns, {"role": "user", "content": content}]


def _nats(*probabilities: float) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)
