"""The decoding loop: draft, verify, commit, stop. It knows token ids only.

The gate reads each token while it is drafted; `Draft.reason` says what it decided.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.ahead import CloudCalls
from specdec_cli.decoding.block import Block, Draft, Enough, Event, Verdict, outcome
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.length import CLOUD_CHUNK, SOLO_BLOCK, BlockLength, most_deferred
from specdec_cli.decoding.stop import StopRules, TextEnd
from specdec_cli.decoding.work import ClipWork, Clock
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import Finished, FinishReason, Reason, Sent, Token

if TYPE_CHECKING:
    from specdec_cli.cloud.remote import RemoteVerifier
    from specdec_cli.cloud.vllm import VllmDrafter
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.verify import LocalVerifier
    from specdec_cli.labels.grounding import Grounding


@dataclass(eq=False)
class Loop:
    """Decodes one clip."""

    # the edge, or a loaded cloud that writes alone; None if a remote cloud writes alone
    drafter: Drafter | VllmDrafter | None
    verifier: LocalVerifier | RemoteVerifier | None  # the cloud; None if the drafter writes alone
    gate: Gate
    stop: StopRules
    settings: DecodingConfig
    calls: CloudCalls
    top_n: int = 0  # most likely tokens to name at each committed one
    sound: Grounding | None = None  # checks the claims of drafts; None: nothing does
    text: tuple[int, ...] = field(default=(), init=False)  # the committed token ids
    _drafted: int = field(default=0, init=False)  # tokens so far, rejected ones included
    _cloud_called: bool = field(default=False, init=False)  # the cloud has read the clip: further calls cost little
    _cloud_failed: str | None = field(default=None, init=False)  # why the edge writes the rest
    _edge_failed: str | None = field(default=None, init=False)  # why the cloud writes the rest

    def __post_init__(self) -> None:
        self._length = BlockLength(self.settings, self.calls.costs)
        self._end = TextEnd(self.stop)

    def run(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Block per round, and Finished. Closing it cancels what is running."""
        clock, work = Clock(), ClipWork(self)
        tokens, thrown_away = list[Token](), 0
        index, ttft_ms, finish = 0, 0.0, None
        try:
            self._prefill_early()
            while finish is None:
                draft = self._draft()
                verdict = None
                if (cloud := self._cloud) is not None and (draft.reason or not draft.ids):
                    if cloud.is_remote or self.calls.in_thread:
                        yield from clock.paused(Sent(index, draft.ids))
                    verdict = self._verify(cloud, draft)
                    if verdict is None and not draft.ids:
                        continue  # the cloud failed, and the edge writes this block
                block, finish = self._commit(index, draft, verdict)
                tokens.extend(block.tokens)
                thrown_away += block.thrown_away
                ttft_ms = ttft_ms or clock.ms
                yield from clock.paused(*work.new_prefills(), block)
                index += 1
            total_ms = clock.ms
            work.learn(tokens)
            self.calls.costs.length.add(len(tokens))
        finally:
            for model in (self.verifier, self.drafter):
                if model is not None and model.is_remote:
                    model.close()
            self.calls.close()
        # only after `close`: a cloud that was still reading the clip has worked as well
        guessed, guesses_kept = work.guesses
        wrote_alone = self._edge_failed and f"{self._edge_failed}; from there on the cloud wrote alone"
        yield Finished(
            self.text,
            finish,
            work.edge,
            work.cloud,
            ttft_ms,
            total_ms,
            degraded=self._cloud_failed or wrote_alone,
            guessed=guessed,
            guesses_kept=guesses_kept,
            thrown_away=thrown_away if self.calls.hides else None,
        )

    def _draft(self) -> Draft:
        """Drafts a block. `reason` says why to verify it: the gate, a loop, a refusal in the text, or the sound."""
        settings, start, available = self.settings, len(self.text), self._cloud is not None
        if self.drafter is None or self._edge_failed is not None:
            return Draft(reason="always" if settings.mode == "lossless" else None)
        whole = settings.defers and available
        size, enough = self._block_size(whole=whole)
        waking = whole and not self._cloud_called and settings.mode == "hybrid"
        draft = self._propose(size, self.gate.open(start, waking=waking, whole=whole), enough)
        if self._end.loops((*self.text, *draft.ids), start):
            if self._may_break_out:
                self._end.leave()
            if self._may_break_out and (self._end.loop_was_verified or not available):
                # the cloud has confirmed this loop: it would reject a way out, and loop on
                size = min(size, SOLO_BLOCK) if whole else size
                way_out = self._propose(size, self.gate.open(start), top_k=settings.loop_top_k)
                return replace(way_out, reason=None, ms=draft.ms + way_out.ms)
            if self.gate.name != "always":
                draft = replace(draft, reason="loop")
        if draft.reason is None and draft.ids and settings.mode == "hybrid" and available:
            draft = replace(draft, reason=self.stop.fault(self.text, draft.ids) or self._contradiction(draft))
        return draft

    def _contradiction(self, draft: Draft) -> Reason | None:
        """The reason `sound` if the draft makes a claim that the sound contradicts."""
        wrong = self.sound is not None and self.sound.contradicts(self.text, draft.ids)
        return "sound" if wrong else None

    def _propose(self, size: int, state: GateState, enough: Enough | None = None, top_k: int | None = None) -> Draft:
        """The edge's draft. If the edge fails and `edge_failed` allows it, an empty one: the cloud writes on."""
        assert self.drafter is not None
        before = self.drafter.work
        try:
            with self.calls.waits_for(self.drafter):
                draft = self.drafter.propose(self.text, size, state, enough, top_k)
        except EdgeError as error:
            if self.settings.edge_failed != "cloud" or self._cloud is None:
                raise
            self._edge_failed = error.message
            return Draft()
        self._drafted += len(draft.ids)
        done = self.drafter.work - before
        if done.encoder_passes:
            self.calls.costs.record("reading", done.reading_ms)
        if top_k is None and (steps := len(draft.ids) - done.encoder_passes) > 0:  # the prefill gives the first one
            self.calls.costs.record("token", done.step_ms / steps)
        return draft

    def _block_size(self, *, whole: bool) -> tuple[int, Enough | None]:
        """Most tokens of the next block, and a rule that may end it before."""
        if whole:
            size = most_deferred(self._drafted, len(self.text))
            enough: Enough | None = partial(self._end.reached, self.text) if self.stop.reads_text else None
        else:
            size = self._length.most()
            enough = self._length.enough if self._length.adapts else None
        size = max(size, self._cloud is None)  # without a cloud that could write, the edge drafts
        return min(size, self.settings.max_new_tokens - len(self.text)), enough

    def _verify(self, cloud: LocalVerifier | RemoteVerifier, draft: Draft) -> Verdict | None:
        """The cloud's verdict on a block; None if the cloud fails and the edge goes on alone. Raises as `_give_up`."""
        run_on = self.settings.run_on
        if not draft.ids:
            alone = self.drafter is None or self._edge_failed is not None
            run_on = (CLOUD_CHUNK if alone else SOLO_BLOCK) - 1
        run_on = max(min(run_on, self.settings.max_new_tokens - len(self.text) - 1), 0)
        forwards = cloud.work.forwards
        try:
            verdict = self._verdict(cloud, draft, run_on)
        except CloudError as error:
            self._give_up(error)
            return None
        if not verdict.prefilled:
            forwards = max(cloud.work.forwards - forwards, 1)
            calls = 1 + len(verdict.stood or ())
            self.calls.costs.record("verification", verdict.ms / forwards + (verdict.network_ms or 0.0) / calls)
            if not draft.ids:
                self.calls.costs.alone.add(1 + len(verdict.run_on), forwards)
        self._cloud_called = True
        return verdict

    def _verdict(self, cloud: LocalVerifier | RemoteVerifier, draft: Draft, run_on: int) -> Verdict:
        """The cloud's verdict. If a rejected token stands, the rest of the draft is verified again, after it."""
        verify = partial(self.calls.verify, cloud, loop_rule=self._end.loop_rule)
        verdict = verify(text=self.text, draft=draft, run_on=run_on)
        while (at := verdict.accepted) < len(draft.ids) and self.sound is not None and self.sound.arbitrates:
            if not self.sound.stands(self.text, draft.ids, at, verdict.token):
                break
            text = (*self.text, *draft.ids[: at + 1])
            verdict = verdict.followed_by(verify(text=text, draft=draft.after(at + 1), run_on=run_on))
        return verdict

    def _prefill_early(self) -> None:
        """Lets the cloud read the clip before any block escalates, if the settings say so."""
        if self.verifier is None or self.settings.cloud_prefill == "lazy":
            return
        self._cloud_called = True
        try:
            self.calls.prefill(self.verifier)
        except CloudError as error:
            self._give_up(error)

    def _give_up(self, error: CloudError) -> None:
        """Goes on without the cloud for the rest of the clip; raises `error` if the edge cannot or must not."""
        if self.drafter is None or not self.settings.degrades or self._edge_failed is not None:
            raise error
        self._cloud_failed = error.message
        if self.settings.mode == "lossless":
            self._cloud_failed += "; from there on the text is the edge's own, and not lossless"

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> tuple[Block, FinishReason | None]:
        """Adds a block to the text, up to where a stop rule or a loop ends it."""
        self._length.learn(draft, verdict)
        start = len(self.text)
        tokens = outcome(draft, verdict, "cloud" if self.settings.mode == "cloud" else "edge", self.top_n)
        text = (*self.text, *(token.id for token in tokens))
        end, finish = self._end.of(text, start, verified=verdict is not None, may_leave=self._may_break_out)
        self.text = text[:end]
        thrown_away = 0 if self.drafter is None else self.drafter.drop_stale(None if finish else self.text)
        hidden_ms = draft.hidden_ms if self.calls.hides else None
        added = tuple(tokens[: end - start])
        return Block(index, replace(draft, logits=None), verdict, added, hidden_ms, thrown_away), finish

    @property
    def _cloud(self) -> LocalVerifier | RemoteVerifier | None:
        """The verifier; None once it has failed."""
        return self.verifier if self._cloud_failed is None else None

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop. A text that must equal the cloud's is never changed, only ended."""
        free = self.settings.mode in ("hybrid", "edge") or self._cloud_failed is not None
        return free and self._edge_failed is None
