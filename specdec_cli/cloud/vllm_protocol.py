"""Requests to a vLLM server's token-in, token-out endpoint, and what is read of its answers.

Prompt, committed text and draft go in as token ids, with one placeholder for the whole recording, and the server
generates from there. With `prompt_logprobs` it also gives, for every position of what went in, the log-probability of
that token, its rank, and the likeliest ones. Positions count from the end, since the placeholder has become many.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from pydantic import AliasPath, BaseModel, ConfigDict, Field

from specdec_cli.cloud.http import Caller, MalformedError, RefusedError, Reply, Request, parse, plain
from specdec_cli.models.processor import Prompt
from specdec_cli.types import ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmCloud

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"

MOST_CANDIDATES: Final = 20  # that a server gives of a position, unless it is started with another --max-logprobs
MOST_BYTES: Final = 1 << 26  # of an answer; 20 candidates for each of 30,000 positions take about this
_LEAST_TOP_LOGPROB: Final = -20.0  # the likeliest of a million tokens has at least -14
_TRANSIENT: Final = frozenset({429, 500, 502, 503, 504})


class GenerateRequest(NamedTuple):
    """A text to score and continue."""

    ids: tuple[int, ...]  # the prompt with one placeholder for the recording, then text and draft
    length: int | None  # tokens of it all, the recording's as many as they are; None: not known yet
    drafted: int  # how many of the last ids are a draft, to be scored
    tokens: int  # most tokens to generate after them
    candidates: int = MOST_CANDIDATES  # likeliest tokens to list of each position
    top_k: int | None = None  # draw each token from so many; None: the likeliest
    seed: int = 0

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
        if self.top_k is not None:
            sampling |= {"temperature": 1, "top_k": self.top_k, "seed": self.seed}
        if self.drafted:
            sampling["prompt_logprobs"] = self.candidates
        request = {"model": model, "token_ids": self.ids, "sampling_params": sampling, **more}
        return json.dumps(request, separators=(",", ":")).encode()


class Scored(NamedTuple):
    """An answer that makes sense."""

    rows: tuple[dict[int, float], ...]  # likeliest tokens at each drafted and each generated one: id -> log-probability
    generated: tuple[int, ...]  # after the draft
    length: int  # tokens of the request


class _Message(BaseModel):
    """Part of an answer, of which the rest does not matter; no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Tokens(_Message):
    tokens: list[int]


class _Model(_Message):
    id: str


class ServedModels(_Message):
    data: list[_Model]


class _Logprob(_Message):
    logprob: float = Field(le=1e-3)
    rank: int | None = Field(default=None, ge=1)


class _Token(_Logprob):
    token_id: int = Field(ge=0)


class _Generated(_Token):
    top_logprobs: list[_Token] = Field(min_length=1)


class _Answer(_Message):
    prompt_tokens: int = Field(validation_alias=AliasPath("usage", "prompt_tokens"))
    prompt_logprobs: list[dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], _Logprob] | None] | None = None
    generated: list[_Generated] = Field(min_length=1, validation_alias=AliasPath("choices", 0, "logprobs", "content"))


def read_answer(body: bytes, request: GenerateRequest) -> Scored:
    """The answer to a request. Raises MalformedError for another shape or length, other tokens, impossible numbers."""
    answer = parse(_Answer, body)
    rows, generated, found = answer.prompt_logprobs or [], answer.generated, list[dict[int, float]]()
    length = request.length or answer.prompt_tokens
    if answer.prompt_tokens != length or length < len(request.ids) or (request.drafted and len(rows) != length):
        raise MalformedError(f"{answer.prompt_tokens} tokens were read and {len(rows)} scored, of {request.length}")
    if len(generated) > request.tokens:
        raise MalformedError(f"{len(generated)} tokens were generated, and at most {request.tokens} requested")
    for back in range(-request.drafted, 0):
        token, row = request.ids[back], rows[back] or {}
        if (own := row.get(str(token))) is None:
            raise MalformedError(f"the drafted token {token} was not scored")
        listed = {int(id_): scored.logprob for id_, scored in row.items()}
        if own.rank is None or own.rank > request.candidates:
            del listed[token]  # listed because it was drafted, after a gap
        found.append(listed)
    found += ({each.token_id: each.logprob for each in scored.top_logprobs} for scored in generated)
    if min(max(listed.values(), default=-math.inf) for listed in found) < _LEAST_TOP_LOGPROB:
        raise MalformedError("the likeliest token is impossible: the model's scores are not finite")
    return Scored(tuple(found), tuple(scored.token_id for scored in generated), answer.prompt_tokens)


class VllmClip:
    """One clip at one server: it is sent with the first request, and again where the server has dropped it."""

    def __init__(self, server: VllmCloud, prompt: Prompt, caller: Caller) -> None:
        self._server, self._prompt, self._caller = server, prompt, caller
        self.id = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self._done = ModelWork(prompt_tokens=len(prompt.ids))

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self._caller.bytes_up)

    def scored(self, ids: tuple[int, ...], drafted: int, tokens: int, stop_ids: Collection[int], **how: Any) -> Scored:
        """The answer, within a call, about a text whose last ids are `drafted`; `how`: see `GenerateRequest`."""
        whole, known = (*self._server.prompt_ids(self._prompt, self._caller), *ids), self._done.prompt_tokens
        request = GenerateRequest(whole, known + len(ids) if known else None, drafted, tokens, **how)
        if self._done.encoder_passes:
            try:
                return self._exchanged(request, len(ids), stop_ids, None)
            except RefusedError as error:
                if error.code != "400" or "cache miss" not in error.message.lower():
                    raise
        assert self._prompt.waveform is not None
        url = data_url(self._prompt.waveform, self._server.processor.sampling_rate)
        return self._exchanged(request, len(ids), stop_ids, url)

    def _exchanged(self, request: GenerateRequest, text: int, stop_ids: Collection[int], url: str | None) -> Scored:
        recording = {"type": "audio_url", "url": url, "uuid": self.id}
        body, waited_s = request.body(self._server.model, stop_ids, content_parts=[recording]), self._caller.waited_s
        scored = self._caller.fetch(Request("POST", GENERATE, body), partial(read_answer, request=request))
        self._done = replace(self._done, prompt_tokens=scored.length - text) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the request, prompt and all, each other one with a step
            forwards=len(scored.generated),
            fed_tokens=text + len(scored.generated) - 1,
            step_ms=(self._caller.waited_s - waited_s) * 1e3,  # the server gives no times: a round trip is in it
        )
        return scored


def data_url(samples: npt.NDArray[np.float32], rate: int) -> str:
    """Mono samples [n] of full scale 1.0 at `rate` Hz as a `data:` address that holds them without loss.

    FLAC where they are numbers of 16 bits, as those of a 16-bit recording at this rate are; else WAV of 32-bit floats.
    """
    scaled = samples * np.float32(1 << 15)  # a power of two: exact
    whole, buffer = scaled.astype(np.int16), BytesIO()
    exact = np.array_equal(whole.astype(np.float32), scaled)
    kind, subtype = ("flac", "PCM_16") if exact else ("wav", "FLOAT")
    soundfile.write(buffer, whole if exact else samples, rate, format=kind.upper(), subtype=subtype)
    return f"data:audio/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def checked(side: str, url: str, request: Request, reply: Reply) -> bytes:
    """The body, if it is that of a good answer; see `http.Check`."""
    if 200 <= reply.status < 300:
        return reply.body
    try:
        found = json.loads(reply.body)
        reason = plain(str(found["error"]["message"] if "error" in found else found["detail"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        reason = "no reason given"
    answer = f"status {reply.status}: {reason}"
    if reply.status in _TRANSIENT:
        raise MalformedError(answer)
    key = f"Set the variable that {side}.token_env names to the server's --api-key."
    raise RefusedError(
        f"{url}{request.path} answers {answer}",
        hint={401: key, 403: key, 404: "Start vLLM with --enable-scale-out."}.get(reply.status),
        code=str(reply.status),
        about_clip=reply.status in (400, 413, 422),
    )
