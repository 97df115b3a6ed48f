"""A vLLM server as the cloud, the edge or both. It keeps recordings by id, and computes their features itself.

One request verifies a block (vLLM's token-in, token-out endpoint): prompt, committed text and draft go in as token ids,
with one placeholder for the whole recording, and the server generates from there. With `prompt_logprobs` it also gives,
for every position of what went in, how likely that token was, its rank, and the likeliest ones. Positions count from
the end, since the placeholder has become many in between.
"""

from __future__ import annotations

import base64
import json
import math
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from pydantic import AliasPath, BaseModel, ConfigDict, Field

from specdec_cli.cloud.cloud import RemoteCloud, RemoteVerifier
from specdec_cli.cloud.http import (
    Caller,
    Http,
    MalformedError,
    MisreadError,
    RefusedError,
    Reply,
    Request,
    parse,
    plain,
)
from specdec_cli.config import AcceptanceConfig, Config, LinkedConfig
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.evidence import CANDIDATES, TokenEvidence
from specdec_cli.decoding.gate import GateState
from specdec_cli.errors import CloudError, ConfigError, DecodingError, EdgeError
from specdec_cli.models.processor import Processor, Prompt, effective
from specdec_cli.types import LEAST_PROBABILITY, Candidates, Decider, ModelWork

GENERATE: Final = "/inference/v1/generate"
TOKENIZE: Final = "/tokenize"
MODELS: Final = "/v1/models"

MOST_CANDIDATES: Final = 20  # that a server gives of a position, unless it is started with another --max-logprobs

# Gap of two log-probabilities that counts as a near tie. A server gives neither its number format nor how far the
# scores of a position spread, so this is the tolerance of the coarsest usual format alone, as for a spread of 1.
TIE: Final = 0.08  # as `models.selftest` has it

_START_S: Final = 120.0  # for the first requests: a server that was just started may still be compiling
_MOST_BYTES: Final = 1 << 26  # of an answer; 20 candidates for each of 30,000 positions take about this
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"
_TRANSIENT: Final = frozenset({429, 500, 502, 503, 504})
_LEAST_TOP_LOGPROB: Final = -20.0  # the likeliest of a million tokens has at least -14


class VllmClip:
    """One clip at one vLLM server: it is sent with the first request, and again where the server has dropped it."""

    def __init__(self, server: VllmCloud, prompt: Prompt, caller: Caller) -> None:
        self._server, self._prompt, self._caller = server, prompt, caller
        self.id = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self.done = ModelWork(prompt_tokens=len(prompt.ids))

    @property
    def work(self) -> ModelWork:
        return replace(self.done, bytes_up=self._caller.bytes_up)

    def scored(self, ids: tuple[int, ...], drafted: int, tokens: int, stop_ids: Collection[int], **how: Any) -> Scored:
        """The answer, within a call, about a text whose last ids are `drafted`; `how`: see `Question`."""
        asked, known = (*self._server.prompt_ids(self._prompt, self._caller), *ids), self.done.prompt_tokens
        question = Question(asked, known + len(ids) if known else None, drafted, tokens, **how)
        if self.done.encoder_passes:
            try:
                return self._exchanged(question, stop_ids, None)
            except RefusedError as error:
                if error.code != "400" or "cache miss" not in error.message.lower():
                    raise
        assert self._prompt.waveform is not None
        return self._exchanged(
            question, stop_ids, data_url(self._prompt.waveform, self._server.processor.sampling_rate)
        )

    def _exchanged(self, question: Question, stop_ids: Collection[int], url: str | None) -> Scored:
        server, caller = self._server, self._caller
        before_s, recording = caller.silent_s, {"type": "audio_url", "url": url, "uuid": self.id}
        body = question.body(server.model, stop_ids, content_parts=[recording])
        scored = caller.fetch(Request("POST", GENERATE, body), partial(read_answer, question=question))
        text = len(question.ids) - len(server.prompt_ids(self._prompt, caller))
        self.done = replace(self.done, prompt_tokens=scored.length - text) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the question, prompt and all, each other one with a step
            forwards=len(scored.generated),
            fed_tokens=text + len(scored.generated) - 1,
            # the server gives no times: its silence, less the shortest silence so far, stands for them
            step_ms=max(caller.silent_s - before_s - server.http.shortest_s, 0.0) * 1e3,
        )
        return scored


class VllmVerifier(RemoteVerifier):
    """Judges the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`."""

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud.require_served(self.config)
        # `top_n` is left aside: vLLM would list the likeliest tokens of every position of the prompt, in each answer
        self._clip = VllmClip(self.cloud, self.prompt, self.caller)
        banned = frozenset(self.cloud.processor.banned_ids)
        self._rules = VllmRules(self.config.acceptance, banned, self.vocab_size, self.synonyms)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def judged(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms = self.work.step_ms
        room = self.config.decoding.max_new_tokens - len(text)
        found = self._judged(text, draft.ids, max(1, min(1 + run_on, room - len(draft.ids))))
        tokens, most = [found.token, *found.more], min(1 + run_on, room - found.accepted)
        while len(tokens) < most and tokens[-1] not in self.stop_ids:
            further = self._judged((*text, *draft.ids[: found.accepted], *tokens), (), most - len(tokens))
            tokens += (further.token, *further.more)
        return replace(found, more=tuple(tokens[1:]), ms=self.work.step_ms - before_ms)

    def send(self) -> None:
        if not self.work.encoder_passes:
            self._clip.scored((), 0, 1, self.stop_ids, candidates=1)

    def _judged(self, text: Sequence[int], draft: tuple[int, ...], tokens: int) -> Verdict:
        """The rule's judgement, and up to `tokens` tokens of the cloud's own."""
        for candidates in (self._rules.needed + 1, MOST_CANDIDATES):  # one of them may be banned
            scored = self._clip.scored((*text, *draft), len(draft), tokens, self.stop_ids, candidates=candidates)
            judged = self._rules.judge(draft, scored, at_most=candidates == MOST_CANDIDATES)
            if judged is not None:
                return judged
        raise CloudError(f"the likeliest {MOST_CANDIDATES} tokens of the cloud at {self.cloud.name} are all banned")


class VllmDrafter:
    """Drafts with a vLLM server: one request a block, or for all of a caption. See `decoding.draft.Drafter`.

    The gate reads the likeliest `MOST_CANDIDATES` tokens of each position. Raises EdgeError where the server fails.
    """

    elsewhere = True
    rows = None

    def __init__(
        self,
        edge: VllmCloud,
        prompt: Prompt,
        config: Config,
        vocab_size: int,
        stop_ids: Collection[int],
        groups: Synonyms = NO_SYNONYMS,
        top_n: int = 0,
    ) -> None:
        edge.require_served(config)
        self._edge, self._stop_ids, self._vocab_size = edge, frozenset(stop_ids), vocab_size
        self._groups, self._top_n, self._seed = groups, top_n, config.decoding.seed
        self._caller = Caller(edge.http)
        self._clip = VllmClip(edge, prompt, self._caller)
        self._banned = frozenset(edge.processor.banned_ids)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; as `Drafter.propose`. A banned token is replaced by the next best."""
        started, ids, rows, ended = time.perf_counter(), list[int](), list[Likely](), False
        drawing = {} if top_k is None else {"top_k": top_k, "seed": self._seed}
        try:
            with self._caller.call():
                self._edge.connect(self._caller)
                while len(ids) < k and not ended:
                    written = (*text, *ids)
                    scored = self._clip.scored(written, 0, k - len(ids), self._stop_ids, **drawing)
                    for token, listed in zip(scored.generated, scored.rows, strict=True):
                        likely = Likely.of(listed, self._banned, self._vocab_size)
                        chosen = token if likely.allows(token) else likely.best
                        ids.append(chosen)
                        rows.append(likely)
                        unsure = state.add(likely.evidence(chosen, self._groups))
                        ended = chosen in self._stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended or chosen != token:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        ms = (time.perf_counter() - started) * 1e3
        figures = state.block_value if ids else None
        return Draft(
            tuple(ids),
            likeliest=tuple(likely.top(self._top_n) for likely in rows) if self._top_n else (),
            evidence=tuple(state.evidence),
            gate_values=tuple(state.values),
            gate_value=figures,
            reason=state.reason,
            ms=ms,
            waking=state.waking,
        )

    def draft_ahead(self, *_: object) -> None:
        """Drafts nothing: it would take requests that may be of no use."""

    def keep(self, _text: tuple[int, ...] | None) -> int:
        """Nothing was drafted ahead."""
        return 0

    def close(self) -> None:
        """Ends a call under way."""
        self._caller.close()


class Likely(NamedTuple):
    """A position of a served edge's text: its likeliest tokens that may be generated, and what is known of the rest."""

    probabilities: dict[int, float]  # descending; of the distribution without the listed banned tokens
    rest: float  # probability of all others together
    others: int  # how many those are

    @classmethod
    def of(cls, listed: Mapping[int, float], banned: Collection[int], vocab_size: int) -> Likely:
        """From id -> log-probability. Raises CloudError if all of them are banned."""
        ps = {id_: math.exp(min(logprob, 0.0)) for id_, logprob in listed.items()}
        allowed = {id_: p for id_, p in ps.items() if id_ < vocab_size and id_ not in banned}
        if not allowed:
            raise CloudError(f"the likeliest {len(listed)} tokens of the edge are all banned")
        whole = max(1.0 - sum(p for id_, p in ps.items() if id_ not in allowed), sum(allowed.values()))
        ranked = sorted(allowed.items(), key=lambda item: -item[1])  # equal ones stay in the server's order
        rest = max(whole - sum(allowed.values()), 0.0) / whole
        return cls({id_: p / whole for id_, p in ranked}, rest, max(vocab_size - len(banned) - len(allowed), 1))

    @property
    def best(self) -> int:
        return next(iter(self.probabilities))

    def allows(self, id_: int) -> bool:
        return id_ in self.probabilities

    def top(self, count: int) -> Candidates:
        """The likeliest, as `decoding.scores.likeliest` gives them."""
        ranked = list(self.probabilities.items())[:count]
        return tuple((id_, round(p, 5)) for at, (id_, p) in enumerate(ranked) if at == 0 or p >= LEAST_PROBABILITY)

    def evidence(self, id_: int, groups: Synonyms) -> TokenEvidence:
        """The evidence on the token that was chosen.

        The entropy is the largest that the listed probabilities leave room for: the rest spread evenly over all other
        tokens. The least: none of them is likelier than the last that is listed, so that the rest falls on as few as
        that allows. Among classes, the rest is counted with the tokens that are in none.
        """
        ps = list(self.probabilities.values())
        listed, least, rest = _nats(*ps), min(ps), self.rest
        highest = listed + (rest * math.log(self.others / rest) if rest > 0 else 0.0)
        whole = int(rest / least) if least > 0 else 0
        lowest = listed + whole * _nats(least) + _nats(max(rest - whole * least, 0.0))
        sums = {-1: rest}
        for token, p in self.probabilities.items() if groups else ():
            group = groups.get(token, -1)
            sums[group] = sums.get(group, 0.0) + p
        return TokenEvidence(
            id_,
            highest,
            ps[0] - (ps[1] if len(ps) > 1 else min(rest, ps[0])),
            math.log(self.probabilities[id_]) if self.probabilities[id_] > 0 else -math.inf,
            tuple(self.probabilities.items())[:CANDIDATES],
            _nats(*sums.values()) if groups else 0.0,
            min(lowest, highest),
        )


def _nats(*probabilities: float) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


class VllmCloud(RemoteCloud):
    """A vLLM server, for any number of clips at once; as the edge, see `VllmEdge`. See `RemoteCloud`.

    The model behind it is taken to have the processor's prompt format and eos ids; that cannot be requested. Its
    tokenizer and vocabulary are compared by trying them. Raises ConfigError or TokenizerMismatchError where the server
    lacks what is needed.
    """

    verifier = VllmVerifier
    side: Decider = "cloud"

    def __init__(self, config: LinkedConfig, processor: Processor, *, own: bool) -> None:
        if config.model is None:
            raise ConfigError(f"a vLLM {self.side} needs {self.side}.model")
        http = Http(config, "application/json", _MOST_BYTES, partial(_checked, self.side), self.side)
        super().__init__(processor, http, "waveform", own=own)
        self.model, self.served = config.model, {"serves": config.model, **self.served}
        self._prompts: dict[tuple[str, str | None], tuple[int, ...]] = {}
        self.start(max(config.timeout_s, _START_S))

    def require_served(self, config: Config) -> None:
        """Raises DecodingError where settings take more than a server's likeliest tokens."""
        for name, hint in beyond_likeliest(effective(config.decoding, self.processor), config.acceptance):
            needs = f"{name}, as it is set or as its checkpoint suggests, needs more"
            raise DecodingError(f"a vLLM {self.side} returns the likeliest tokens only, and {needs}", hint=hint)

    def prompt_ids(self, prompt: Prompt, caller: Caller) -> tuple[int, ...]:
        """A prompt as the server takes it: one placeholder in place of each run of them.

        Where it has none yet, the server is asked for one, about a moment of silence: prompts differ in the number of
        placeholders alone.
        """
        ids, placeholder = prompt.ids, self.processor.placeholder_id
        if prompt.asked is None:
            return tuple(id_ for at, id_ in enumerate(ids) if id_ != placeholder or at == 0 or ids[at - 1] != id_)
        if (known := self._prompts.get(prompt.asked)) is None:
            instruction, system = prompt.asked
            url = data_url(np.zeros(self.processor.sampling_rate, np.float32), self.processor.sampling_rate)
            said: list[dict[str, Any]] = [{"type": "text", "text": instruction}] if instruction else []
            turns: list[dict[str, Any]] = [{"role": "system", "content": system}] if system is not None else []
            turns.append({"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": url}}, *said]})
            body = json.dumps({"model": self.model, "messages": turns}).encode()
            ids = tuple(caller.fetch(Request("POST", TOKENIZE, body), partial(parse, _Tokens)).tokens)
            known = self.prompt_ids(Prompt(ids, {}), caller)
            if known.count(placeholder) != 1:
                raise RefusedError(
                    f"the vLLM server at {self.name} puts {known.count(placeholder)} recordings into a prompt, not 1",
                    hint="Serve the checkpoint with its own chat template.",
                )
            self._prompts[prompt.asked] = known
        return known

    def fit(self, caller: Caller) -> None:
        """By requests like those that will come: what the server refuses of them is a mistake of set-up."""
        models = caller.fetch(Request("GET", MODELS), partial(parse, _Models)).data
        if self.model not in {each.id for each in models}:
            names = ", ".join(sorted(each.id[:100] for each in models)) or "nothing"
            raise RefusedError(
                f"the vLLM server at {self.name} serves {names}, not {self.model}",
                hint=f"Set {self.side}.model to the name under which it serves the model (its --served-model-name).",
            )
        processor = self.processor
        text = _PROBE + "".join(map(processor.piece, sorted({*processor.eos_ids, processor.placeholder_id})))
        body = json.dumps({"model": self.model, "prompt": text, "add_special_tokens": False}).encode()
        theirs = caller.fetch(Request("POST", TOKENIZE, body), partial(parse, _Tokens)).tokens
        ours = processor.encode(text)
        if theirs != ours:
            raise MisreadError(
                f"{self.role} {processor.name} and {self.side} {self.model} at {self.name} have different tokenizers "
                f"(the same text is {len(ours)} tokens for one and {len(theirs)} for the other, or others)",
                hint=f"Drafted ids would mean other words to it. Name its checkpoint in {self.side}.processor.",
            )
        # about no recording; it shows whether the last id exists there, too
        ids = (*processor.encode(_PROBE), self.vocab_size - 1)
        question = Question(ids, len(ids), 1, 1)
        body = question.body(self.model, processor.eos_ids)
        caller.fetch(Request("POST", GENERATE, body), partial(read_answer, question=question))


class VllmEdge(VllmCloud):
    """The edge behind a vLLM server. Raises EdgeError if it cannot be reached at the start: nothing goes without it."""

    side: Decider = "edge"

    def start(self, timeout_s: float | None = None) -> None:
        super().start(timeout_s)
        if self.http.failure is not None:
            raise EdgeError(self.http.failure, hint="Start the server, or check edge.url.")


class Question(NamedTuple):
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
    length: int = 0  # tokens of the question


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
        m, rows = len(draft), [self._ranked(listed) for listed in scored.rows]
        if not at_most and (min(map(len, rows[:m]), default=self.needed) < self.needed or not rows[m]):
            return None
        accepted = next((at for at, id_ in enumerate(draft) if not self._passes(id_, rows[at])), m)
        if not rows[accepted]:
            return None
        tokens = [rows[accepted][0][0]]
        for at, said in enumerate(scored.generated[:-1], start=m + 1) if accepted == m else ():
            if tokens[-1] != said or not rows[at]:
                break  # what was generated after follows a banned token
            tokens.append(rows[at][0][0])
        gaps = [row[0][1] - row[1][1] if len(row) > 1 else math.nan for row in rows[: accepted + 1]]
        ties = None if any(map(math.isnan, gaps)) else sum(gap <= TIE for gap in gaps)
        return Verdict(accepted, tokens[0], tuple(tokens[1:]), ties)

    def _ranked(self, listed: Mapping[int, float]) -> list[tuple[int, float]]:
        """Listed tokens that may be generated, the likeliest first, of equal ones the lowest id."""
        allowed = ((id_, p) for id_, p in listed.items() if id_ < self.vocab_size and id_ not in self.banned)
        return sorted(allowed, key=lambda item: (-item[1], item[0]))

    def _passes(self, id_: int, row: list[tuple[int, float]]) -> bool:
        """Whether a drafted token is kept, by the listed tokens of its position."""
        if not row:
            return False
        best, groups = row[0][0], self.synonyms if self.acceptance.rule == "class" else NO_SYNONYMS
        if self.acceptance.rule == "rank":
            own = dict(row).get(id_, -math.inf)
            return own > -math.inf and sum(p > own for _, p in row) < self.acceptance.rank
        return id_ == best or (id_ in groups and groups[id_] == groups.get(best))


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
    length = question.length or answer.prompt_tokens
    if answer.prompt_tokens != length or length < len(question.ids) or (question.drafted and len(rows) != length):
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
    return Scored(tuple(found), tuple(scored.token_id for scored in generated), answer.prompt_tokens)


def _checked(side: str, url: str, request: Request, reply: Reply) -> bytes:
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
