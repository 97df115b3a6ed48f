"""One clip at vLLM servers: it is sent once, drafted with one request a block or caption, and verified likewise."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.cloud.cloud import RemoteVerifier
from specdec_cli.cloud.http import Caller, RefusedError, Request
from specdec_cli.cloud.vllm_protocol import (
    GENERATE,
    MOST_CANDIDATES,
    Allowed,
    GenerateRequest,
    Likely,
    Scored,
    data_url,
    read_answer,
)
from specdec_cli.config import AcceptanceConfig, Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.gate import GateState
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.models.processor import Prompt
from specdec_cli.types import ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmCloud, VllmEdge

# Gap of two log-probabilities that counts as a near tie. A server gives neither its number format nor how far the
# scores of a position spread, so this is the tolerance of the coarsest usual format alone, as for a spread of 1.
TIE: Final = 0.08  # as `models.selftest` has it


class VllmClip:
    """One clip at one server: it is sent with the first request, and again where the server has dropped it.

    Raises DecodingError where the settings take more than a server's likeliest tokens.
    """

    def __init__(
        self,
        server: VllmCloud,
        prompt: Prompt,
        config: Config,
        vocab_size: int,
        stop_ids: Collection[int],
        caller: Caller,
    ) -> None:
        server.require_served(config)
        self._server, self._prompt, self._stop_ids, self._caller = server, prompt, stop_ids, caller
        self._allowed = Allowed(vocab_size, frozenset(server.processor.banned_ids))
        self._uuid = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self._done = ModelWork(prompt_tokens=len(prompt.ids))

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self._caller.bytes_up)

    def scored(
        self, ids: tuple[int, ...], drafted: int, tokens: int, least: int = MOST_CANDIDATES, **how: Any
    ) -> Scored:
        """The answer, within a call, about a text whose last ids are `drafted`; at most `tokens` are generated.

        At each drafted token `least` likeliest ones, or as many as a server gives. `how`: see `GenerateRequest`.
        """
        whole, known = (*self._server.prompt_ids(self._prompt, self._caller), *ids), self._done.prompt_tokens
        length = known + len(ids) if known else None
        for candidates in dict.fromkeys((min(least + 1, MOST_CANDIDATES), MOST_CANDIDATES)):  # one may be banned
            request = GenerateRequest(whole, length, drafted, tokens, self._allowed, candidates, **how)
            found = self._sent(request, len(ids))
            if all(len(row.logprobs) >= (least if at < drafted else 1) for at, row in enumerate(found.rows)):
                break
        if not all(row.logprobs for row in found.rows):
            raise CloudError(f"the likeliest {MOST_CANDIDATES} tokens of the model at {self._server.name} are banned")
        return found

    def _sent(self, request: GenerateRequest, text: int) -> Scored:
        if self._done.encoder_passes:
            try:
                return self._exchanged(request, text, None)
            except RefusedError as error:
                if not error.forgotten:
                    raise
        assert self._prompt.waveform is not None
        return self._exchanged(request, text, data_url(self._prompt.waveform, self._server.processor.sampling_rate))

    def _exchanged(self, request: GenerateRequest, text: int, url: str | None) -> Scored:
        recording = {"type": "audio_url", "url": url, "uuid": self._uuid}
        body = request.body(self._server.model, self._stop_ids, content_parts=[recording])
        waited_s = self._caller.waited_s
        scored = self._caller.fetch(Request("POST", GENERATE, body), partial(read_answer, request=request))
        self._done = replace(self._done, prompt_tokens=scored.length - text) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the request, prompt and all, each other one with a step
            forwards=len(scored.generated),
            fed_tokens=text + len(scored.generated) - 1,
            step_ms=(self._caller.waited_s - waited_s) * 1e3,  # the server gives no times: a round trip is in it
        )
        return scored


class VllmDrafter:
    """Drafts with a vLLM server. See `decoding.draft.Drafter`. Raises EdgeError where the server fails.

    The gate reads the likeliest `MOST_CANDIDATES` tokens of each position.
    """

    elsewhere = True
    rows = None

    def __init__(
        self,
        edge: VllmEdge,
        prompt: Prompt,
        config: Config,
        vocab_size: int,
        stop_ids: Collection[int],
        groups: Synonyms = NO_SYNONYMS,
        top_n: int = 0,
    ) -> None:
        self._edge, self._stop_ids, self._seed = edge, stop_ids, config.decoding.seed
        self._groups, self._top_n = groups, top_n
        self._caller = Caller(edge.http)
        self._clip = VllmClip(edge, prompt, config, vocab_size, stop_ids, self._caller)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; as `Drafter.propose`. A banned token is replaced by the next best."""
        started, ids, likeliest, ended = time.perf_counter(), list[int](), list[Likely](), False
        drawing = {} if top_k is None else {"top_k": top_k, "seed": self._seed}
        try:
            with self._edge.call(self._caller):
                while len(ids) < k and not ended:
                    scored = self._clip.scored((*text, *ids), 0, k - len(ids), **drawing)
                    for token, row in zip(scored.written, scored.rows, strict=False):
                        ids.append(token)
                        likeliest.append(row)
                        unsure = state.add(row.evidence(token, self._groups))
                        ended = token in self._stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        return Draft(
            tuple(ids),
            likeliest=tuple(row.top(self._top_n) for row in likeliest) if self._top_n else (),
            evidence=tuple(state.evidence),
            gate_values=tuple(state.values),
            gate_value=state.block_value,
            reason=state.reason,
            ms=(time.perf_counter() - started) * 1e3,
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


class VllmVerifier(RemoteVerifier):
    """Verifies the blocks of one clip with a vLLM server, which drops recordings by itself. See `RemoteVerifier`."""

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        # `top_n` is left aside: vLLM would list the likeliest tokens of every position of the prompt, in each answer
        self._clip = VllmClip(self.cloud, self.prompt, self.config, self.vocab_size, self.stop_ids, self.caller)

    @property
    def work(self) -> ModelWork:
        return self._clip.work

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms, rules = self.work.step_ms, self.config.acceptance
        room = self.config.decoding.max_new_tokens - len(text)
        scored = partial(self._clip.scored, least=rules.rank if rules.rule == "rank" else 1)
        tokens = max(1, min(1 + run_on, room - len(draft.ids)))
        found = judged(draft.ids, scored((*text, *draft.ids), len(draft.ids), tokens), rules, self.synonyms)
        written, most = [found.token, *found.more], min(1 + run_on, room - found.accepted)
        while len(written) < most and written[-1] not in self.stop_ids:
            written += scored((*text, *draft.ids[: found.accepted], *written), 0, most - len(written)).written
        return replace(found, more=tuple(written[1:]), ms=self.work.step_ms - before_ms)

    def upload(self) -> None:
        if not self.work.encoder_passes:
            self._clip.scored((), 0, 1, least=0)


def judged(
    draft: tuple[int, ...], scored: Scored, rules: AcceptanceConfig, synonyms: Synonyms = NO_SYNONYMS
) -> Verdict:
    """The verdict on a block of m tokens by the rule greedy, rank or class.

    A drafted token whose rank is not among the listed ones is not kept.
    """
    pairs = enumerate(zip(draft, scored.rows, strict=False))
    accepted = next((at for at, (id_, row) in pairs if not _passes(id_, row, rules, synonyms)), len(draft))
    token, *more = scored.written if accepted == len(draft) else [scored.rows[accepted].best]
    best = [[*row.logprobs.values()][:2] for row in scored.rows[: accepted + 1]]
    ties = sum(two[0] - two[1] <= TIE for two in best) if all(len(two) == 2 for two in best) else None
    return Verdict(accepted, token, tuple(more), ties)


def _passes(id_: int, row: Likely, rules: AcceptanceConfig, synonyms: Synonyms) -> bool:
    if rules.rule == "rank":
        own = row.logprobs.get(id_, -math.inf)
        return own > -math.inf and sum(p > own for p in row.logprobs.values()) < rules.rank
    groups = synonyms if rules.rule == "class" else NO_SYNONYMS
    return id_ == row.best or (id_ in groups and groups[id_] == groups.get(row.best))
