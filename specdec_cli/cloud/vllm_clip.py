"""One clip at vLLM servers: it is sent once, drafted with one request a block or caption, and verified likewise."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from specdec_cli.cloud.cloud import RemoteClip, RemoteVerifier
from specdec_cli.cloud.http import RefusedError, Request
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
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.gate import GateState
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import ModelWork

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmCloud

_SURE: Final = 0.95  # probability of a drafted token from which on it is expected to be accepted


class VllmClip(RemoteClip):
    """One clip at one server: it is sent with the first request, and again where the server has dropped it.

    Raises DecodingError where the settings take more than a server's likeliest tokens.
    """

    cloud: VllmCloud

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud.require_served(self.config)
        self._allowed = Allowed(self.vocab_size, frozenset(self.cloud.processor.banned_ids))
        self._uuid = uuid.uuid4().hex  # names the clip to the server; nobody can guess it
        self._done = ModelWork(prompt_tokens=len(self.prompt.ids))

    @property
    def work(self) -> ModelWork:
        return replace(self._done, bytes_up=self.caller.bytes_up)

    def scored(
        self, ids: tuple[int, ...], drafted: int, tokens: int, least: int = MOST_CANDIDATES, top_k: int | None = None
    ) -> Scored:
        """The answer, within a call, about a text whose last ids are `drafted`; at most `tokens` are generated.

        At each position `least` likeliest ones, or as many as a server gives. With `top_k`, tokens are drawn.
        """
        whole, known = (*self.cloud.prompt_ids(self.prompt, self.caller), *ids), self._done.prompt_tokens
        length = known + len(ids) if known else None
        candidates = min(least + 1 + len(self._allowed.banned), MOST_CANDIDATES)  # with room for banned ones
        drawing = None if top_k is None else (top_k, self.config.decoding.seed)
        request = GenerateRequest(whole, length, drafted, tokens, self._allowed, candidates, drawing)
        if self._done.encoder_passes:
            try:
                return self._exchanged(request, len(ids), None)
            except RefusedError as error:
                if not error.forgotten:
                    raise
        return self._exchanged(request, len(ids), data_url(self.waveform, self.cloud.processor.sampling_rate))

    def _exchanged(self, request: GenerateRequest, text: int, url: str | None) -> Scored:
        recording, waited_s = {"type": "audio_url", "url": url, "uuid": self._uuid}, self.caller.waited_s
        body = request.body(self.cloud.model, self.stop_ids, content_parts=[recording])
        scored = self.caller.fetch(Request("POST", GENERATE, body), partial(read_answer, request=request))
        self._done = replace(self._done, prompt_tokens=scored.length - text) + ModelWork(
            encoder_passes=int(url is not None),
            # the first token comes with reading the request, prompt and all, each other one with a step
            forwards=scored.forwards,
            fed_tokens=text + scored.forwards - 1,
            step_ms=(self.caller.waited_s - waited_s) * 1e3,  # the server gives no times: a round trip is in it
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
        started, ids, likeliest, ended = time.perf_counter(), list[int](), list[Likely](), False
        try:
            with self.cloud.call(self.caller):
                while len(ids) < k and not ended:
                    scored = self.scored((*text, *ids), 0, k - len(ids), top_k=top_k)
                    for token, row in zip(scored.generated, scored.rows, strict=True):
                        ids.append(token)
                        likeliest.append(row)
                        unsure = state.add(row.evidence(token, self.synonyms))
                        ended = token in self.stop_ids or (state.stops and unsure) or bool(enough and enough(state))
                        if ended:
                            break
        except CloudError as error:
            raise EdgeError(error.message, hint=error.hint) from error
        return Draft(
            tuple(ids),
            likeliest=tuple(row.top(self.top_n) for row in likeliest) if self.top_n else (),
            evidence=tuple(state.evidence),
            gate_values=tuple(state.values),
            gate_value=state.block_value,
            reason=state.reason,
            ms=(time.perf_counter() - started) * 1e3,
            waking=state.waking,
        )

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
        self._rows: dict[tuple[int, ...], Likely] = {}  # text -> what may follow it
        self._writes_on = False

    def request_verdict(self, text: Sequence[int], draft: Draft, run_on: int) -> Verdict:
        before_ms, rules, m = self.work.step_ms, self.config.acceptance, len(draft.ids)
        room = self.config.decoding.max_new_tokens - len(text)
        unsure = (at for at, each in enumerate(draft.evidence) if each.probability < _SURE)
        cut = next(unsure, m) if self._writes_on else m
        scored, tokens = draft.ids[:cut], m - cut + max(1, min(1 + run_on, room - m))
        rows, written, accepted = list[Likely](), [*text, *draft.ids], 0
        while True:
            known = tuple(written[: len(text) + accepted])
            if accepted == m > 0 and known[-1] in self.stop_ids and known not in self._rows:
                token = known[-1]  # the cloud has written up to the end as well: nothing can follow
                break
            rows.append(self._row(known, scored[accepted:], tokens))
            token = rows[-1].best
            if accepted == m or not rows[-1].passes(draft.ids[accepted], rules, self.synonyms):
                break
            accepted += 1
        more, most = [token], min(1 + run_on, room - accepted)
        while len(more) < most and more[-1] not in self.stop_ids:
            more.append(self._row((*known, *more), (), most - len(more)).best)
        self._writes_on = m > 0 and self.config.decoding.defers and rules.rule in (None, "greedy")
        ties = [row.near_tie for row in rows]
        near_ties = None if None in ties else sum(map(bool, ties))
        return Verdict(accepted, token, tuple(more[1:]), near_ties, self.work.step_ms - before_ms)

    def _row(self, text: tuple[int, ...], draft: tuple[int, ...], tokens: int) -> Likely:
        """What may follow a text; where that is not known, `draft` is scored after it, and `tokens` are generated."""
        if text not in self._rows:
            rules = self.config.acceptance
            least = rules.rank if rules.rule == "rank" else 1
            scored = self.scored((*text, *draft), len(draft), tokens, least)
            path = (*draft, *scored.generated)
            self._rows |= {(*text, *path[:at]): row for at, row in enumerate(scored.rows)}
        return self._rows[text]

    def upload(self) -> None:
        if not self.work.encoder_passes:
            self.scored((), 0, 1, least=0)
