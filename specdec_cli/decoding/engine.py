"""The decoding loop: draft, gate, verify, commit.

It knows token ids and tensors only. All decisions about a clip are taken in `Engine.steps`, a generator that stops
where it needs a forward and is sent the scores; who makes the forward, for this clip alone (`Engine.run`) or for many
clips together (`rows`), changes no decision. No longer reading it leaves both sessions clean, holding nothing but
committed text.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.adaptive import BlockLength, Costs, block_length
from specdec_cli.decoding.clock import ActiveTime, timed, told
from specdec_cli.decoding.cloud_side import CloudSide, Turns
from specdec_cli.decoding.draft import Draft, Drafts
from specdec_cli.decoding.gate import Decision, Gate
from specdec_cli.decoding.loops import LoopEnd, loop_end
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.stopping import StopRules
from specdec_cli.decoding.verify import Verifier
from specdec_cli.models.session import Pass, Steps, Wait
from specdec_cli.types import (
    Event,
    Finished,
    FinishReason,
    LinkUse,
    ModelWork,
    Prefill,
    Reason,
    Round,
    Source,
)


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A drafted block and what is thought of it.

    Attributes:
        draft, decision: the block, and what the gate says of it.
        looping: whether the edge ran into a loop with it.
        broken_out: whether this is its way out of one.
        ms: time spent drafting, milliseconds, without prefill.
    """

    draft: Draft
    decision: Decision
    looping: bool
    broken_out: bool
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class _Block:
    """What a round is about to add to the text.

    Attributes:
        proposal: what was drafted.
        reason: why the cloud was asked, None if it was not.
        accepted: leading drafted tokens that are kept.
        ids, source: the new tokens, and where each came from.
        verify_ms: the cloud's time, milliseconds; None if it did nothing.
        link: what the exchange cost, if there was a link.
    """

    proposal: _Proposal
    reason: Reason | None
    accepted: int
    ids: tuple[int, ...]
    source: tuple[Source, ...]
    verify_ms: float | None = None
    link: LinkUse | None = None


class Engine:
    """Decodes one clip.

    Args:
        drafter: proposes blocks: the edge, or the cloud in cloud mode.
        verifier: judges escalated blocks; None in the modes of one model.
        gate: decides which blocks escalate.
        stopping: the stop rules.
        options: the run's settings.
        length: how far each block is drafted; None: as the options say, by the costs of this clip alone.
    """

    def __init__(
        self,
        drafter: Drafts,
        verifier: Verifier | None,
        gate: Gate,
        stopping: StopRules,
        options: DecodingOptions,
        length: BlockLength | None = None,
    ) -> None:
        self._drafter = drafter
        self._length = length or block_length(options, Costs())
        self._gate = gate
        self._stopping = stopping
        self._options = options
        # No method of this object: what the cloud's side holds on to must not hold the clip's caches in a circle.
        self._loop_end: LoopEnd = partial(loop_end, period=options.loop_period, repeats=options.loop_repeats)
        self._cloud = CloudSide(verifier, drafter, gate, options, self._loop_end)
        self._text: list[int] = []
        self._of_cloud = 0
        self._loop_was_verified = False

    @property
    def text(self) -> tuple[int, ...]:
        """The committed token ids."""
        return tuple(self._text)

    def run(self) -> Iterator[Event]:
        """Yields a Prefill per model, a Round per block, and Finished, making every forward for this clip alone.

        A block that is verified elsewhere is announced by a Sent when it sets out.
        """
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
        clock = ActiveTime()
        ttft_ms = 0.0
        prefilled: set[str] = set()
        finish: FinishReason | None = None
        index = 0
        self._rollback()
        try:
            yield from self._cloud.begin()
            while finish is None:
                block, finish = yield from told(self._round(index), clock)
                useless = self._rollback(keep_ahead=finish is None)
                ttft_ms = ttft_ms or clock.ms
                clock.pause()
                yield from self._new_prefills(prefilled)
                yield self._event(index, block, useless)
                clock.resume()
                index += 1
            edge, cloud = self._work()
            yield Finished(self.text, finish, edge, cloud, ttft_ms, clock.ms, self._cloud.degraded)
        finally:
            self._rollback()

    def _event(self, index: int, block: _Block, useless: int) -> Round:
        draft, decision = block.proposal.draft, block.proposal.decision
        return Round(
            index=index,
            draft_ids=draft.ids,
            entropy=decision.entropy,
            score=decision.score,
            margin=tuple(token.margin for token in decision.evidence),
            logprob=tuple(token.logprob for token in decision.evidence),
            candidates=tuple(token.candidates for token in decision.evidence),
            escalated=block.reason is not None,
            reason=block.reason,
            accepted=block.accepted,
            committed_ids=block.ids,
            source=block.source,
            draft_ms=block.proposal.ms,
            verify_ms=block.verify_ms,
            network_ms=None if block.link is None else block.link.network_ms,
            hidden_ms=draft.hidden_ms if self._cloud.drafts_ahead else None,
            thrown_away=useless,
            link=block.link,
        )

    def _round(self, index: int) -> Turns[tuple[_Block, FinishReason | None]]:
        """Drafts, gates, verifies and commits one block."""
        block = yield from self._draft_and_judge(index)
        text = [*self._text, *block.ids]
        finish: FinishReason | None = None
        end = len(text)
        stop = self._stopping.first_stop(text, len(self._text))
        if stop is not None:
            end, finish = stop
        looped = self._loop_end(text[:end], len(self._text))
        if looped is not None and not (finish and looped == end):
            if self._verified_for_the_first_time(block):
                self._loop_was_verified = True
            else:
                end, finish = looped, "loop"
        else:
            self._loop_was_verified = False
        kept = end - len(self._text)
        self._text = text[:end]
        if kept < len(block.ids):
            block = replace(block, ids=block.ids[:kept], source=block.source[:kept])
        self._of_cloud += sum(source not in ("edge", "accepted") for source in block.source)
        return block, finish

    def _draft_and_judge(self, index: int) -> Turns[_Block]:
        before = self._drafter.work
        proposal, own_ms = yield from timed(self._propose())
        self._length.drafted(before, self._drafter.work)
        proposal = replace(proposal, ms=own_ms + self._drafter.work.step_ms - before.step_ms)
        draft = proposal.draft
        self._cloud.drafted(draft, proposal.ms)
        reason: Reason | None = "loop" if proposal.looping and self._gate.name != "always" else proposal.decision.reason
        generating = not draft.ids  # the cloud writes alone
        # A way out of a loop that the cloud has confirmed is not put to the cloud again: it would loop on.
        if (generating or reason is not None) and not proposal.broken_out:
            answer, own_ms = yield from timed(self._cloud.ask(index, self._text, draft, self._of_cloud))
            if answer is not None:
                verify_ms = answer.verify_ms + (0.0 if self._cloud.flown else own_ms)
                self._length.verified(proposal.decision.evidence, answer.verdict.accepted)
                if not answer.prefilled:
                    self._length.took(_step_ms(answer.verdict, verify_ms))
                return _verified(proposal, reason, answer.verdict, verify_ms)
        self._length.kept(proposal.decision.evidence)
        source: Source = "cloud" if self._options.mode == "cloud" else "edge"
        kept = len(draft.ids)
        return _Block(proposal, None, kept, draft.ids, (source,) * kept)

    def _propose(self) -> Steps[_Proposal]:
        start = len(self._text)
        least = 0 if self._cloud.available else 1  # somebody has to write
        size = min(max(self._length.most(), least), self._options.max_new_tokens - start)
        judge = self._gate.open(start)
        draft = yield from self._drafter.propose(self._text, size, self._length.stop(judge))
        looping = self._loop_end([*self._text, *draft.ids], start) is not None
        broken_out = False
        if looping and self._may_break_out and (self._loop_was_verified or not self._cloud.available):
            draft = yield from self._drafter.break_out(self._text, size, self._options.loop_top_k)
            judge = self._gate.open(start)
            broken_out = True
        return _Proposal(draft, judge.decide(draft), looping, broken_out)

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop; a text that the cloud promises to equal is never bent, only ended."""
        return self._options.mode in ("hybrid", "edge") or self._cloud.degraded is not None

    def _verified_for_the_first_time(self, block: _Block) -> bool:
        """Whether a loop in this block is the cloud's own word, and the edge may still try to break out of it."""
        return self._may_break_out and block.reason is not None and not self._loop_was_verified

    def _rollback(self, *, keep_ahead: bool = False) -> int:
        """Brings both sides back to the committed text; returns how many tokens drafted ahead that makes useless."""
        useless = self._drafter.rollback(self._text, keep_ahead=keep_ahead)
        self._cloud.rollback(self._text)
        return useless

    def _work(self) -> tuple[ModelWork | None, ModelWork | None]:
        """Each model's work: (edge, cloud)."""
        if self._options.mode == "cloud":
            return None, self._cloud.work or self._drafter.work
        return self._drafter.work, self._cloud.work

    def _new_prefills(self, seen: set[str]) -> Iterator[Prefill]:
        edge, cloud = self._work()
        if edge is not None and edge.forwards and "edge" not in seen:
            seen.add("edge")
            yield Prefill("edge", edge.prompt_tokens, edge.encoder_ms, edge.prefill_ms)
        if cloud is not None and cloud.prefill_ms > 0 and "cloud" not in seen:  # a vLLM does not say
            seen.add("cloud")
            yield Prefill("cloud", cloud.prompt_tokens, cloud.encoder_ms, cloud.prefill_ms)


def _verified(proposal: _Proposal, reason: Reason | None, verdict: Verdict, verify_ms: float) -> _Block:
    """The block as the cloud left it."""
    drafted = proposal.draft.ids
    own: Source = "bonus" if verdict.accepted == len(drafted) else "corrected"
    sources: list[Source] = ["accepted"] * verdict.accepted
    sources.append(own if drafted else "cloud")
    sources.extend("cloud" for _ in verdict.more)
    ids = (*drafted[: verdict.accepted], verdict.token, *verdict.more)
    return _Block(proposal, reason, verdict.accepted, ids, tuple(sources), verify_ms, verdict.link)


def _step_ms(verdict: Verdict, verify_ms: float) -> float:
    """What one verification took out of an exchange that may have run on, its round trip included, milliseconds."""
    return verify_ms / (1 + len(verdict.more)) + (0.0 if verdict.link is None else verdict.link.network_ms)
