"""The decoding loop: draft, gate, verify, commit.

It knows token ids and tensors only. All decisions about a clip are taken in `Engine.steps`, a generator that stops
where it needs a forward and is sent the scores; who makes the forward, for this clip alone (`Engine.run`) or for many
clips together (`rows`), changes no decision. No longer reading it leaves both sessions clean, holding nothing but
committed text.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.draft import Draft, Drafter
from specdec_cli.decoding.gate import Decision, Gate
from specdec_cli.decoding.loops import loop_end
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.stopping import StopRules
from specdec_cli.decoding.verify import Verifier
from specdec_cli.errors import CloudError
from specdec_cli.models.session import Pass, Steps, T, Wait
from specdec_cli.types import Event, Finished, FinishReason, ModelWork, Prefill, Reason, Round, Source


class _ActiveTime:
    """Milliseconds since the start, without the time that the reader of the events took."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._since = time.perf_counter()

    def pause(self) -> None:
        self._elapsed += time.perf_counter() - self._since

    def resume(self) -> None:
        self._since = time.perf_counter()

    @property
    def ms(self) -> float:
        return (self._elapsed + time.perf_counter() - self._since) * 1e3


@dataclass(frozen=True, slots=True)
class _Block:
    """What a round is about to add to the text."""

    draft: Draft
    decision: Decision
    ids: tuple[int, ...]
    source: tuple[Source, ...]
    reason: Reason | None
    accepted: int
    draft_ms: float
    verify_ms: float | None


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A drafted block and what is thought of it."""

    draft: Draft
    decision: Decision
    looping: bool
    broken_out: bool


class Engine:
    """Decodes one clip.

    Args:
        drafter: proposes blocks: the edge, or the cloud in cloud mode.
        verifier: judges escalated blocks; None in the modes of one model.
        gate: decides which blocks escalate.
        stopping: the stop rules.
        options: the run's settings.
    """

    def __init__(
        self, drafter: Drafter, verifier: Verifier | None, gate: Gate, stopping: StopRules, options: DecodingOptions
    ) -> None:
        self._drafter = drafter
        self._verifier = verifier
        self._gate = gate
        self._stopping = stopping
        self._options = options
        self._text: list[int] = []
        self._loop_was_verified = False
        self._degraded: str | None = None

    @property
    def text(self) -> tuple[int, ...]:
        """The committed token ids."""
        return tuple(self._text)

    def run(self) -> Iterator[Event]:
        """Yields a Prefill per model, a Round per block, and Finished, making every forward for this clip alone."""
        steps = self.steps()
        try:
            step = next(steps)
            while True:
                if isinstance(step, (Pass, Wait)):
                    step = steps.send(step.run())
                else:
                    yield step
                    step = next(steps)
        except StopIteration:
            return
        finally:
            steps.close()

    def steps(self) -> Generator[Pass | Wait | Event, Any, None]:
        """The events, and between them the passes that they need: each pass wants its scores sent back.

        A `Wait` wants None, once what it waits for is there.
        """
        clock = _ActiveTime()
        ttft_ms = 0.0
        prefilled: set[str] = set()
        finish: FinishReason | None = None
        index = 0
        self._rollback()
        try:
            if self._options.early_cloud_prefill:
                yield from self._prefill_cloud()
            while finish is None:
                block, finish = yield from self._round()
                ttft_ms = ttft_ms or clock.ms
                clock.pause()
                yield from self._new_prefills(prefilled)
                yield Round(
                    index=index,
                    draft_ids=block.draft.ids,
                    entropy=block.decision.entropy,
                    score=block.decision.score,
                    margin=tuple(token.margin for token in block.decision.evidence),
                    logprob=tuple(token.logprob for token in block.decision.evidence),
                    candidates=tuple(token.candidates for token in block.decision.evidence),
                    escalated=block.reason is not None,
                    reason=block.reason,
                    accepted=block.accepted,
                    committed_ids=block.ids,
                    source=block.source,
                    draft_ms=block.draft_ms,
                    verify_ms=block.verify_ms,
                )
                clock.resume()
                index += 1
            edge, cloud = self._work()
            yield Finished(self.text, finish, edge, cloud, ttft_ms, clock.ms, self._degraded)
        finally:
            self._rollback()

    def _round(self) -> Steps[tuple[_Block, FinishReason | None]]:
        """Drafts, gates, verifies and commits one block."""
        block = yield from self._draft_and_judge()
        text = [*self._text, *block.ids]
        finish: FinishReason | None = None
        end = len(text)
        stop = self._stopping.first_stop(text, len(self._text))
        if stop is not None:
            end, finish = stop
        looped = self._loop_end(text[:end])
        if looped is not None and not (finish and looped == end):
            if self._verified_for_the_first_time(block):
                self._loop_was_verified = True
            else:
                end, finish = looped, "loop"
        else:
            self._loop_was_verified = False
        kept = end - len(self._text)
        self._text = text[:end]
        self._rollback()
        return replace(block, ids=block.ids[:kept], source=block.source[:kept]), finish

    def _draft_and_judge(self) -> Steps[_Block]:
        before = self._step_ms()
        proposal, own_ms = yield from _timed(self._propose())
        draft, decision = proposal.draft, proposal.decision
        draft_ms = own_ms + self._step_ms() - before
        reason: Reason | None = "loop" if proposal.looping and self._gate.name != "always" else decision.reason
        # A way out of a loop that the cloud has confirmed is not put to the cloud again: it would loop on.
        verdict = None
        before = self._step_ms()
        if reason is not None and not proposal.broken_out:
            verdict, own_ms = yield from _timed(self._verdict(draft))
        if verdict is None:
            source: Source = "cloud" if self._options.mode == "cloud" else "edge"
            kept = len(draft.ids)
            return _Block(draft, decision, draft.ids, (source,) * kept, None, kept, draft_ms, None)
        verify_ms = own_ms + self._step_ms() - before
        accepted = verdict.accepted
        last: Source = "bonus" if accepted == len(draft.ids) else "corrected"
        ids = (*draft.ids[:accepted], verdict.token)
        sources: list[Source] = ["accepted"] * accepted
        sources.append(last)
        return _Block(draft, decision, ids, tuple(sources), reason, accepted, draft_ms, verify_ms)

    def _propose(self) -> Steps[_Proposal]:
        budget = self._options.max_new_tokens - len(self._text)
        size = min(self._options.k, budget)
        judge = self._gate.open(len(self._text))
        draft = yield from self._drafter.propose(self._text, size, judge.stop)
        looping = self._loop_end([*self._text, *draft.ids]) is not None
        broken_out = False
        if looping and self._may_break_out and (self._asked is None or self._loop_was_verified):
            draft = yield from self._drafter.break_out(self._text, size, self._options.loop_top_k)
            judge = self._gate.open(len(self._text))
            broken_out = True
        return _Proposal(draft, judge.decide(draft), looping, broken_out)

    @property
    def _asked(self) -> Verifier | None:
        """Who judges escalated blocks; None where nobody does, or nobody any more."""
        return self._verifier if self._degraded is None else None

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop; a text that the cloud promises to equal is never bent, only ended."""
        return self._options.mode in ("hybrid", "edge") or self._degraded is not None

    def _verdict(self, draft: Draft) -> Steps[Verdict | None]:
        """What the cloud says of the block; None if there is none to ask."""
        if self._asked is None:
            return None
        try:
            return (yield from self._asked.verify(self._text, draft))
        except CloudError as error:
            self._degrade(error)
            return None

    def _prefill_cloud(self) -> Steps[None]:
        try:
            if self._asked is not None:
                yield from self._asked.prefill()
        except CloudError as error:
            self._degrade(error)

    def _degrade(self, error: CloudError) -> None:
        """Goes on without the cloud for the rest of the clip, or raises `error` where the cloud is required."""
        if self._options.require_cloud:
            raise error
        self._degraded = error.message
        if self._options.mode == "lossless":
            self._degraded += "; from there on the text is the edge's own, and not lossless"

    def _verified_for_the_first_time(self, block: _Block) -> bool:
        """Whether a loop in this block is the cloud's own word, and the edge may still try to break out of it."""
        return self._may_break_out and block.reason is not None and not self._loop_was_verified

    def _loop_end(self, text: list[int]) -> int | None:
        return loop_end(text, len(self._text), self._options.loop_period, self._options.loop_repeats)

    def _rollback(self) -> None:
        self._drafter.session.rollback(self._text)
        if self._verifier is not None:
            self._verifier.rollback(self._text)

    def _work(self) -> tuple[ModelWork | None, ModelWork | None]:
        """Each model's work: (edge, cloud)."""
        drafting = self._drafter.session.work
        if self._options.mode == "cloud":
            return None, drafting
        return drafting, None if self._verifier is None else self._verifier.work

    def _step_ms(self) -> float:
        return sum(work.step_ms for work in self._work() if work is not None)

    def _new_prefills(self, seen: set[str]) -> Iterator[Prefill]:
        edge, cloud = self._work()
        if edge is not None and edge.forwards and "edge" not in seen:
            seen.add("edge")
            yield Prefill("edge", edge.prompt_tokens, edge.encoder_ms, edge.prefill_ms)
        if cloud is not None and cloud.forwards and "cloud" not in seen:
            seen.add("cloud")
            yield Prefill("cloud", cloud.prompt_tokens, cloud.encoder_ms, cloud.prefill_ms)


def _timed(steps: Steps[T]) -> Steps[tuple[T, float]]:
    """The result of `steps` and its own milliseconds: those of the forwards, and of waiting for them, left out."""
    own = 0.0
    since = time.perf_counter()
    try:
        wanted = next(steps)
        while True:
            own += time.perf_counter() - since
            scores = yield wanted
            since = time.perf_counter()
            wanted = steps.send(scores)
    except StopIteration as done:
        result: T = done.value
        return result, (own + time.perf_counter() - since) * 1e3
