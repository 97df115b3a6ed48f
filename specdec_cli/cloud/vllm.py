"""A vLLM server as the cloud. It keeps recordings by id, and computes their features itself.

One request verifies a block (vLLM's token-in, token-out endpoint): prompt, committed text and draft go in as token ids,
with one placeholder for the whole recording, and the server generates from there. With `prompt_logprobs` it also gives,
for every position of what went in, how likely that token was, its rank, and the likeliest ones. Positions count from
the end, since the placeholder has become many in between.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
import torch
from pydantic import AliasPath, BaseModel, ConfigDict, Field

from specdec_cli.cloud.cloud import RemoteCloud, RemoteVerifier
from specdec_cli.cloud.http import Caller, Http, MisreadError, RefusedError, Reply, Request, plain
from specdec_cli.cloud.protocol import MalformedError, parse
from specdec_cli.config import AcceptanceConfig, CloudConfig
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict, judge
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.scores import effective
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.processor import Processor
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.types import ModelWork

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"

MOST_CANDIDATES: Final = 20  # that a server gives of a position, unless it is started with another --max-logprobs

# Gap of two log-probabilities that counts as a near tie. A server gives neither its number format nor how far the
# scores of a position spread, so this is the tolerance of the coarsest usual format alone, as for a spread of 1.
TIE: Final = tie_tolerance(torch.bfloat16)

_START_S: Final = 120.0  # for the first requests: a server that was just started may still be compiling
_MOST_BYTES: Final = 1 << 26  # of an answer; 20 candidates for each of 30,000 positions take about this
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"
_TRANSIENT: Final = frozenset({429, 500, 502, 503, 504})
_LEAST_TOP_LOGPROB: Final = -20.0  # the likeliest of a million tokens has at least -14


class VllmVerifier(RemoteVerifier):
    """Judges the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`."""

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        config, processor = self.config, self.cloud.processor
        for name, hint in beyond_likeliest(effective(config.decoding, processor), config.acceptance):
            needs = f"{name}, as it is set or as its checkpoint suggests, needs more"
            raise DecodingError(f"a vLLM cloud returns the likeliest tokens only, and {needs}", hint=hint)
        # `kept` is left aside: vLLM would list the likeliest tokens of every position of the prompt, in each answer
        ids, placeholder = self.prompt.ids, processor.placeholder_id
        self.done = ModelWork(prompt_tokens=len(ids))
        # as the server takes it: one placeholder in place of each run of them
        self._prompt = tuple(id_ for at, id_ in enumerate(ids) if id_ != placeholder or at == 0 or ids[at - 1] != id_)
        self._rules = VllmRules(config.acceptance, frozenset(processor.banned_ids), self.vocab_size, self.synonyms)

    def judged(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms = self.done.step_ms
        room = self.config.decoding.max_new_tokens - len(text)
        found = self._judged(text, draft.ids, max(1, min(1 + run_on, room - len(draft.ids))))
        tokens, most = [found.token, *found.more], min(1 + run_on, room - found.accepted)
        while len(tokens) < most and tokens[-1] not in self.stop_ids:
            further = self._judged((*text, *draft.ids[: found.accepted], *tokens), (), most - len(tokens))
            tokens += (further.token, *further.more)
        return replace(found, more=tuple(tokens[1:]), ms=self.done.step_ms - before_ms)

    def send(self) -> None:
        if not self.done.encoder_passes:
            self._scored((), 0, 1, 1)

    def _judged(self, text: Sequence[int], draft: tuple[int, ...], tokens: int) -> Verdict:
        """The rule's judgement, and up to `tokens` tokens of the cloud's own."""
        for candidates in (self._rules.needed + 1, MOST_CANDIDATES):  # one of them may be banned
            scored = self._scored((*text, *draft), len(draft), tokens, candidates)
            judged = self._rules.judge(draft, scored, at_most=candidates == MOST_CANDIDATES)
            if judged is not None:
                return judged
        raise CloudError(f"the likeliest {MOST_CANDIDATES} tokens of the cloud at {self.cloud.name} are all banned")

    def _scored(self, ids: tuple[int, ...], drafted: int, tokens: int, candidates: int) -> Scored:
        """The answer to one question, with the recording if the server does not have it."""
        prompt_tokens = len(self.prompt.ids)
        question = Question((*self._prompt, *ids), prompt_tokens + len(ids), drafted, tokens, candidates)
        if self.done.encoder_passes:
            try:
                return self._exchanged(question, None)
            except RefusedError as error:
                if error.code != "400" or "cache miss" not in error.message.lower():
                    raise
        return self._exchanged(question, data_url(self.waveform, self.cloud.processor.sampling_rate))

    def _exchanged(self, question: Question, url: str | None) -> Scored:
        before_s = self.caller.silent_s
        recording = {"type": "audio_url", "url": url, "uuid": self.id}
        body = question.body(self.cloud.model, self.stop_ids, content_parts=[recording])
        scored = self.caller.fetch(Request("POST", GENERATE, body), partial(read_answer, question=question))
        generated = len(scored.generated)
        self.done += ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the question, prompt and all, each other one with a step
            forwards=generated,
            fed_tokens=question.length - len(self.prompt.ids) + generated - 1,
            # the server gives no times: its silence, less the shortest silence so far, stands for them
            step_ms=max(self.caller.silent_s - before_s - self.cloud.http.shortest_s, 0.0) * 1e3,
        )
        return scored


class VllmCloud(RemoteCloud):
    """A vLLM server, for any number of clips at once. See `RemoteCloud`.

    The model behind it is taken to have the processor's prompt format and eos ids; that cannot be requested. Its
    tokenizer and vocabulary are compared by trying them. Raises ConfigError or TokenizerMismatchError where the server
    lacks what is needed.
    """

    verifier = VllmVerifier

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        if config.model is None:
            raise ConfigError("a vLLM cloud needs cloud.model")
        super().__init__(processor, Http(config, "application/json", _MOST_BYTES, _checked), "waveform", own=own)
        self.model, self.served = config.model, {"serves": config.model, **self.served}
        self.start(max(config.timeout_s, _START_S))

    def fit(self, caller: Caller) -> None:
        """By requests like those that will come: what the server refuses of them is a mistake of set-up."""
        models = caller.fetch(Request("GET", MODELS), partial(parse, _Models)).data
        if self.model not in {each.id for each in models}:
            names = ", ".join(sorted(each.id[:100] for each in models)) or "nothing"
            raise RefusedError(
                f"the vLLM server at {self.name} serves {names}, not {self.model}",
                hint="Set cloud.model to the name under which it serves the model (vllm's --served-model-name).",
            )
        tokenizer = self.processor.tokenizer
        specials = sorted({*self.processor.eos_ids, self.processor.placeholder_id})
        text = _PROBE + "".join(tokenizer.convert_ids_to_tokens(specials))
        body = json.dumps({"model": self.model, "prompt": text, "add_special_tokens": False}).encode()
        theirs = caller.fetch(Request("POST", TOKENIZE, body), partial(parse, _Tokens)).tokens
        ours = tokenizer(text, add_special_tokens=False).input_ids
        if theirs != ours:
            raise MisreadError(
                f"{self.role} {self.processor.name} and cloud {self.model} at {self.name} have different tokenizers "
                f"(the same text is {len(ours)} tokens for one and {len(theirs)} for the other, or others)",
                hint="Drafted ids would mean other words to the cloud. Name its checkpoint in cloud.processor.",
            )
        # about no recording; it shows whether the last id exists there, too
        ids = (*tokenizer(_PROBE, add_special_tokens=False).input_ids, self.vocab_size - 1)
        question = Question(ids, len(ids), 1, 1, MOST_CANDIDATES)
        body = question.body(self.model, self.processor.eos_ids)
        caller.fetch(Request("POST", GENERATE, body), partial(read_answer, question=question))


class Question(NamedTuple):
    """A text to score and continue."""

    ids: tuple[int, ...]  # the prompt with one placeholder for the recording, then text and draft
    length: int  # tokens of it all, the recording's as many as they are
    drafted: int  # how many of the last ids are a draft, to be scored
    tokens: int  # most tokens to generate after them
    candidates: int  # likeliest tokens to list of each position

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
        if self.drafted:
            sampling["prompt_logprobs"] = self.candidates
        request = {"model": model, "token_ids": self.ids, "sampling_params": sampling, **more}
        return json.dumps(request, separators=(",", ":")).encode()


class Scored(NamedTuple):
    """An answer that makes sense."""

    rows: tuple[dict[int, float], ...]  # likeliest tokens at each drafted and each generated one: id -> log-probability
    generated: tuple[int, ...]  # after the draft


class VllmRules(NamedTuple):
    """The acceptance rules that can be applied to the likeliest few tokens of each position, for one clip."""

    acceptance: AcceptanceConfig  # greedy, rank or class
    banned: frozenset[int]  # ids that are never generated
    vocab_size: int  # nor these and those above
    synonyms: Synonyms = NO_SYNONYMS

    @property
    def needed(self) -> int:
        """Likeliest tokens of a drafted position by which a rule decides."""
        return self.acceptance.rank if self.acceptance.rule == "rank" else 1

    def judge(self, draft: tuple[int, ...], scored: Scored, *, at_most: bool = False) -> Verdict | None:
        """The rule applied to a block of m tokens; None if the answer does not hold enough.

        With `at_most` no answer holds more: a drafted token whose rank it does not give is not kept.
        """
        scores, m = torch.full((len(scored.rows), self.vocab_size), -torch.inf), len(draft)
        for row, listed in zip(scores, scored.rows, strict=True):
            for id_, logprob in listed.items():
                if id_ < self.vocab_size and id_ not in self.banned:
                    row[id_] = logprob
        known = scores.isfinite().sum(dim=-1).tolist()
        if not at_most and (min(known[:m], default=self.needed) < self.needed or not known[m]):
            return None
        accepted, token = judge(
            Draft(draft), scores[: m + 1], self.acceptance, torch.Generator(), sampling=False, synonyms=self.synonyms
        )
        if not known[accepted]:
            return None
        tokens = [token]
        for at, said in enumerate(scored.generated[:-1], start=m + 1) if accepted == m else ():
            if tokens[-1] != said or not known[at]:
                break  # what was generated after follows a banned token
            tokens.append(int(scores[at].argmax()))
        best = scores[: accepted + 1].topk(2, dim=-1).values
        ties = int((best[:, 0] - best[:, 1] <= TIE).sum()) if bool(best.isfinite().all()) else None
        return Verdict(accepted, token, tuple(tokens[1:]), ties)


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


class _Message(BaseModel):
    """Part of an answer, of which the rest does not matter; no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class _Tokens(_Message):
    tokens: list[int]


class _Model(_Message):
    id: str


class _Models(_Message):
    data: list[_Model]


class _Scored(_Message):
    logprob: float = Field(le=1e-3)
    rank: int | None = Field(default=None, ge=1)


class _Token(_Scored):
    token_id: int = Field(ge=0)


class _Generated(_Token):
    top_logprobs: list[_Token] = Field(min_length=1)


class _Answer(_Message):
    prompt_tokens: int = Field(validation_alias=AliasPath("usage", "prompt_tokens"))
    prompt_logprobs: list[dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], _Scored] | None] | None = None
    generated: list[_Generated] = Field(min_length=1, validation_alias=AliasPath("choices", 0, "logprobs", "content"))


def read_answer(body: bytes, question: Question) -> Scored:
    """The answer to a question. Raises MalformedError for another shape or length, other tokens, impossible numbers."""
    answer = parse(_Answer, body)
    rows, generated, found = answer.prompt_logprobs or [], answer.generated, list[dict[int, float]]()
    if answer.prompt_tokens != question.length or (question.drafted and len(rows) != question.length):
        raise MalformedError(f"{answer.prompt_tokens} tokens were read and {len(rows)} scored, of {question.length}")
    if len(generated) > question.tokens:
        raise MalformedError(f"{len(generated)} tokens were generated, and at most {question.tokens} requested")
    for back in range(-question.drafted, 0):
        token, row = question.ids[back], rows[back] or {}
        if (own := row.get(str(token))) is None:
            raise MalformedError(f"the drafted token {token} was not scored")
        listed = {int(id_): scored.logprob for id_, scored in row.items()}
        if own.rank is None or own.rank > question.candidates:
            del listed[token]  # it stands there because it was requested, after a gap
        found.append(listed)
    found += ({each.token_id: each.logprob for each in scored.top_logprobs} for scored in generated)
    if min(max(listed.values(), default=-math.inf) for listed in found) < _LEAST_TOP_LOGPROB:
        raise MalformedError("the likeliest token is impossible: the model's scores are not finite")
    return Scored(tuple(found), tuple(scored.token_id for scored in generated))


def _checked(url: str, request: Request, reply: Reply) -> bytes:
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
    key = "Set the variable that cloud.token_env names to the server's --api-key."
    raise RefusedError(
        f"{url}{request.path} answers {answer}",
        hint={401: key, 403: key, 404: "Start vLLM with --enable-scale-out."}.get(reply.status),
        code=str(reply.status),
        about_clip=reply.status in (400, 413, 422),
    )
