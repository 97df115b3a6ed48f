"""vLLM servers as the cloud or the edge: whether they fit, their prompts, and a clip that they draft or verify."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from specdec_cli.cloud import vllm_protocol as wire
from specdec_cli.cloud.cloud import Caller, RemoteClip, RemoteCloud, RemoteVerifier
from specdec_cli.cloud.http import ForgottenError, RefusedError, parse
from specdec_cli.cloud.vllm_protocol import GenerateRequest, Scored
from specdec_cli.config import LinkedConfig
from specdec_cli.config.checks import beyond_likeliest
from specdec_cli.decoding.accept import NO_SYNONYMS
from specdec_cli.decoding.block import Draft, Enough, Verdict
from specdec_cli.decoding.gate import GateState
from specdec_cli.errors import CloudError, DecodingError, EdgeError, TokenizerMismatchError
from specdec_cli.models.processor import Processor, Prompt, effective
from specdec_cli.types import Candidates, ModelWork

_START_S: Final = 120.0  # for the first requests: a server that was just started may still be compiling
_PROBE: Final = "How does she speak? 她的声音低沉，语速较慢。 0.5 naïve\n"
_SURE: Final = 0.95  # probability of a drafted token from which on it is expected to be accepted


class VllmClip(RemoteClip):
    """One clip at one server: it is sent with the first request, and again where the server has dropped it.

    Raises DecodingError where the settings take more than a server's likeliest tokens.
    """

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, hint in beyond_likeliest(
            effective(self.config.decoding, self.cloud.processor), self.config.acceptance
        ):
            needs = f"{name}, as it is set or as its checkpoint suggests, needs more"
            raise DecodingError(f"a vLLM {self.cloud.side} returns the likeliest tokens only, and {needs}", hint=hint)
        self._uuid = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self.done = ModelWork(prompt_tokens=len(self.prompt.ids))

    def scored(
        self, ids: tuple[int, ...], drafted: int, tokens: int, listed: int, drawing: tuple[int, int] | None = None
    ) -> Scored:
        """The answer, within a call, about a text whose last ids are `drafted`; at most `tokens` are generated.

        At each position so many likeliest ones are `listed`. `drawing`: see `GenerateRequest`.
        """
        whole, known = (*self.cloud.prompt_ids(self.prompt, self), *ids), self.done.prompt_tokens
        length, banned = known + len(ids) if known else None, self.cloud.processor.banned_ids
        request = GenerateRequest(whole, length, drafted, tokens, self.vocab_size, banned, listed, drawing)
        if self.done.encoder_passes:
            with suppress(ForgottenError):
                return self._exchanged(request, len(ids), None)
        return self._exchanged(request, len(ids), wire.data_url(self.waveform, self.cloud.processor.sampling_rate))

    def _exchanged(self, request: GenerateRequest, text: int, url: str | None) -> Scored:
        recording, waited_s = {"type": "audio_url", "url": url, "uuid": self._uuid}, self.waited_s
        body = request.body(self.cloud.model, self.stop_ids, content_parts=[recording])
        scored = self.fetch("POST", wire.GENERATE, partial(wire.read_answer, request=request), body, request.most_bytes)
        self.done = replace(self.done, prompt_tokens=scored.length - text) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the request, prompt and all, each other one with a step
            forwards=scored.forwards,
            fed_tokens=text + scored.forwards - 1,
            step_ms=(self.waited_s - waited_s) * 1e3,  # the server gives no times: a round trip is in it
        )
        return scored


class VllmDrafter(VllmClip):
    """Drafts with a vLLM server. See `decoding.draft.Drafter`. Raises EdgeError where the server fails.

    The gate reads the likeliest `MOST_CANDIDATES` tokens of each position. Nothing is drafted ahead: it would take
    requests that may be of no use.
    """

    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; as `Drafter.propose`. A banned token is replaced by the next best."""
        started, ids, likeliest, ended = time.perf_counter(), list[int](), list[Candidates](), False
        drawing = None if top_k is None else (top_k, self.config.decoding.seed)
        try:
            with self.call():
                while len(ids) < k and not ended:
                    scored = self.scored((*text, *ids), 0, k - len(ids), wire.MOST_CANDIDATES, drawing)
                    for token, row in zip(scored.generated, scored.rows, strict=True):
                        ids.append(token)
                        likeliest.append(row.top(self.top_n))
                        unsure = state.add(row.evidence(token, self.synonyms))
                        ended = token in self.stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        ms = (time.perf_counter() - started) * 1e3
        return Draft(tuple(ids), None, state, state.reason, ms, likeliest=tuple(likeliest) if self.top_n else ())

    def draft_ahead(self, *_: object) -> None: ...

    def keep(self, _text: tuple[int, ...] | None) -> int:
        return 0


class VllmVerifier(VllmClip, RemoteVerifier):
    """Verifies the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`.

    A block is scored as a whole. Where a deferred draft, which goes to the caption's end, is verified once more, the
    cloud writes on by itself from the first token of which the edge is not sure, and its answer holds the verdicts on
    later blocks of that clip, too. `top_n` is left aside: vLLM would list so many tokens of every position of the
    prompt.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._next: dict[tuple[int, ...], int] = {}  # text -> the token that the cloud continues it with
        self._writes_on = False

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms, rule, m = self.work.step_ms, self.config.acceptance.rule, len(draft.ids)
        room, path, accepted = self.config.decoding.max_new_tokens - len(text), tuple(text), 0
        groups = self.synonyms if rule == "class" else NO_SYNONYMS
        unsure = (at for at, each in enumerate(draft.gate.evidence) if each.probability < _SURE)
        cut = next(unsure, m) if self._writes_on else m
        tokens = m - cut + max(min(1 + run_on, room - m), 1)
        for id_ in draft.ids:
            own = self._continued(path, draft.ids[accepted:cut], tokens)
            if id_ != own and (id_ not in groups or groups[id_] != groups.get(own)):
                break
            path, accepted = (*path, id_), accepted + 1
        # after the end of a text nothing is committed
        written, most = [path[-1]] if accepted and path[-1] in self.stop_ids else [], min(1 + run_on, room - accepted)
        while not written or (len(written) < most and written[-1] not in self.stop_ids):
            written.append(self._continued((*path, *written), (), max(most - len(written), 1)))
        self._writes_on = m > 0 and self.config.decoding.defers and rule != "class"
        return Verdict(accepted, written[0], tuple(written[1:]), ms=self.work.step_ms - before_ms)

    def _continued(self, text: tuple[int, ...], draft: tuple[int, ...], tokens: int) -> int:
        """The cloud's next token; where it is not known, `draft` is scored after `text`, and `tokens` are generated."""
        if text not in self._next:
            # which may be the likeliest ones
            banned = len(self.cloud.processor.banned_ids) + self.cloud.vocab_size - self.vocab_size
            scored = self.scored((*text, *draft), len(draft), tokens, min(2 + banned, wire.MOST_CANDIDATES))
            path = (*draft, *scored.generated)
            self._next |= {(*text, *path[:at]): row.best for at, row in enumerate(scored.rows)}
        return self._next[text]

    def prefill(self) -> None:
        with self.call():
            self._continued((), (), 1)


class VllmCloud(RemoteCloud):
    """A vLLM server, for any number of clips at once; as the edge, see `VllmEdge`. See `RemoteCloud`.

    The model behind it is taken to have the processor's prompt format and eos ids; that cannot be requested. Its
    tokenizer and vocabulary are compared by trying them. Raises TokenizerMismatchError, too, where they differ.
    """

    verifier = VllmVerifier
    content_type, most_bytes = "application/json", wire.MOST_BYTES

    def __init__(self, config: LinkedConfig, processor: Processor, *, own: bool) -> None:
        super().__init__(config, processor, "waveform", own=own)
        assert config.model is not None  # a configuration without is refused
        self.model, self.served = config.model, {"serves": config.model, **self.served}
        self._prompts: dict[tuple[str, str | None], list[int]] = {}
        self.start(max(config.timeout_s, _START_S))

    def prompt_ids(self, prompt: Prompt, caller: Caller) -> tuple[int, ...]:
        """A prompt as the server takes it: one placeholder in place of each run of them.

        Where it has none yet, the server makes one, of a second of silence: prompts differ in the number of
        placeholders alone.
        """
        ids: Sequence[int] = prompt.ids
        if (asked := prompt.unformatted) is not None:
            if asked not in self._prompts:
                self._prompts[asked] = self._tokens(
                    caller, messages=wire.messages(*asked, self.processor.sampling_rate)
                )
            ids = self._prompts[asked]
        placeholder = self.processor.placeholder_id
        return tuple(id_ for before, id_ in zip((None, *ids), ids, strict=False) if not id_ == before == placeholder)

    def fit(self, caller: Caller) -> None:
        """By requests like those that will come: what the server refuses of them is a mistake of set-up."""
        served = caller.fetch("GET", wire.MODELS, partial(parse, wire.ServedModels)).data
        models = {each.id for each in served}
        if self.model not in models:
            names = ", ".join(sorted(name[:100] for name in models)) or "nothing"
            hint = f"Set {self.side}.model to the name under which it serves the model (its --served-model-name)."
            raise RefusedError(f"the vLLM server at {self.name} serves {names}, not {self.model}", hint)
        processor = self.processor
        text = _PROBE + "".join(map(processor.piece, sorted({*processor.eos_ids, processor.placeholder_id})))
        if self._tokens(caller, prompt=text, add_special_tokens=False) != processor.encode(text):
            raise RefusedError(
                f"{self.role} {processor.name} and {self.side} {self.model} at {self.name} have different tokenizers",
                hint=f"Drafted ids would mean other words to it. Name its checkpoint in {self.side}.processor.",
                kind=TokenizerMismatchError,
            )
        # about no recording; it shows whether the last id exists there, too
        ids = (*processor.encode(_PROBE), self.vocab_size - 1)
        request = GenerateRequest(ids, len(ids), 1, 1, self.vocab_size)
        body = request.body(self.model, processor.eos_ids)
        caller.fetch("POST", wire.GENERATE, partial(wire.read_answer, request=request), body, request.most_bytes)

    def _tokens(self, caller: Caller, **what: object) -> list[int]:
        """The server's token ids of a `prompt` or of `messages`."""
        body = json.dumps({"model": self.model, **what}).encode()
        return caller.fetch("POST", wire.TOKENIZE, partial(parse, wire.Tokens), body).tokens


class VllmEdge(VllmCloud):
    """The edge behind a vLLM server. Raises EdgeError if it cannot be reached at the start: nothing goes without it."""

    side = "edge"

    def start(self, timeout_s: float | None = None) -> None:
        super().start(timeout_s)
        if self.failure is not None:
            raise EdgeError(self.failure, hint="Start the server, or check edge.url.")
