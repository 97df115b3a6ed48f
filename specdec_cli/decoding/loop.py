"""The decoding loop: draft, gate, verify, commit. It knows token ids and tensors only."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.commit import outcome, round_of
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.length import MOST_DEFERRED, SOLO_BLOCK, AdaptiveLength, Costs, most_drafted
from specdec_cli.decoding.lookup import OWN
from specdec_cli.decoding.stop import LoopRule, StopRules
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import (
    Decider,
    Event,
    Finished,
    FinishReason,
    ModelWork,
    Prefill,
    Round,
    Sent,
    Source,
)

if TYPE_CHECKING:
    from specdec_cli.cloud.vllm import VllmDrafter
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.rows import Rows
    from specdec_cli.decoding.verify import Verifier

CLOUD_CHUNK: Final = 16  # tokens that a cloud elsewhere writes at a time in cloud mode: more would delay the view
_STEP_AHEAD: Final = 0.5  # a step, in units of a verification, up to which the edge drafts ahead by itself
T = TypeVar("T")


@dataclass(eq=False)
class Loop:
    """Decodes one clip."""

    # the edge, or the cloud in cloud mode; None where a cloud elsewhere generates alone
    drafter: Drafter | VllmDrafter | None
    verifier: Verifier | None  # of escalated blocks; None in the modes of one model
    gate: Gate
    stop: StopRules
    settings: DecodingConfig
    length: AdaptiveLength | int  # most tokens of a block, or what finds it
    costs: Costs = field(default_factory=Costs)  # what steps and verifications take, for `length`
    cloud_is_parallel: bool = False  # on another device, or behind a link: it takes no time from the edge
    release_slot: Callable[[], AbstractContextManager[None]] = nullcontext  # around waits for anything but a forward
    top_n: int = 0  # likeliest tokens to keep of each committed one
    reads_ahead: bool = field(default=False, init=False)  # whether the cloud reads the clip while the edge drafts
    verify_async: bool = field(default=False, init=False)  # the cloud works in a thread, while the edge drafts on
    cloud_alone: bool = field(init=False)  # the cloud writes without drafts
    text: tuple[int, ...] = field(default=(), init=False)  # the committed token ids
    _executor: ThreadPoolExecutor | None = field(default=None, init=False)
    _loops: int = field(default=0, init=False)  # found, and left or to be left
    _loop_was_verified: bool = field(default=False, init=False)
    _cloud_called: bool = field(default=False, init=False)  # the cloud has read the clip: further calls cost little
    _degraded: str | None = field(default=None, init=False)
    _edge_failed: str | None = field(default=None, init=False)  # why the cloud writes the rest

    def __post_init__(self) -> None:
        settings = self.settings
        self.cloud_alone = self.drafter is None or (settings.may_skip_drafts and self.costs.cloud_alone)
        if self.verifier is None:
            return
        ahead = settings.draft_ahead == "on" or (settings.draft_ahead == "auto" and self.cloud_is_parallel)
        drafts = self.drafter is not None and not self.drafter.elsewhere and settings.mode != "cloud"
        self.reads_ahead = settings.cloud_prefill == "overlap"
        self.verify_async = self.reads_ahead or (drafts and ahead)

    def run(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Round per block, and Finished. Stopping to read ends what is under way."""
        clock, prefilled, sources = _Clock(), set[str](), list[Source]()
        index, ttft_ms, finish = 0, 0.0, None
        try:
            self._prefill_early()
            while finish is None:
                draft, verdict = self._draft(), None
                if self.verifier is not None and self._available and (draft.reason or not draft.ids):
                    if self.verify_async or self.verifier.elsewhere:
                        yield from clock.paused(Sent(index, draft.ids))
                    verdict = self._verify(self.verifier, draft)
                    if verdict is None and not draft.ids:
                        continue  # the cloud failed, and the edge writes this block
                round_, finish = self._commit(index, draft, verdict)
                sources.extend(round_.source)
                ttft_ms = ttft_ms or clock.ms
                yield from clock.paused(*self._new_prefills(prefilled), round_)
                index += 1
            total_ms = clock.ms
            self._learn(total_ms, sources)
        finally:
            self._close()
        # After the end of what was under way: a cloud that still read the clip has worked as well.
        guesses = [(rows.guessed, rows.guesses_kept) for rows, _ in self._guessing]
        sums = map(sum, zip(*guesses, strict=True)) if guesses else (None, None)
        yield Finished(self.text, finish, *self._work, ttft_ms, total_ms, self._degraded or self._why_cloud, *sums)

    def _learn(self, total_ms: float, sources: Sequence[Source]) -> None:
        """Takes in what the clip took, and lets later captions be guessed from its text."""
        self.costs.clips += 1
        if self.settings.may_skip_drafts and self.verifier is not None and (rows := self.verifier.rows) is not None:
            ms = total_ms - self.verifier.work.reading_ms  # which is the same either way, and most of it
            self.costs.wrote(len(self.text), ms, None if self.cloud_alone else rows.forwards(self.text))
        for rows, own in self._guessing:
            rows.learn(self.text, [source in own for source in sources])

    def _draft(self) -> Draft:
        """A block, and why it should be verified: what the gate finds, a loop that the edge runs into, or its text."""
        if self.drafter is None or self._edge_failed is not None or (self.cloud_alone and self._available):
            return Draft(reason="always" if self.settings.mode == "lossless" else None)
        start, settings = len(self.text), self.settings
        whole = settings.defers and self._available
        enough: Enough | None = None
        if whole:
            size, enough = MOST_DEFERRED, self._ended if self.stop.reads_text else None
        elif isinstance(self.length, int):
            size = self.length
        else:
            size, enough = self.length.most(), self.length.enough
        if not self._available:
            size = max(size, 1)  # no cloud is left that could write
        size = min(size, settings.max_new_tokens - start)
        waking = whole and not self._cloud_called and settings.mode == "hybrid"
        state = self.gate.open(start, waking=waking, whole=whole)
        before = self.drafter.work
        try:
            draft = self.drafter.propose(self.text, size, state, enough)
        except EdgeError as error:
            if settings.edge_failed != "cloud" or not self._available:
                raise
            self._edge_failed = error.message
            return Draft()
        done = self.drafter.work - before
        if (steps := len(draft.ids) - done.encoder_passes) > 0:  # the prefill gives the first one
            self.costs.took("token", done.step_ms / steps)
        if self._loop_rule.end((*self.text, *draft.ids), start) is not None:
            if self._may_break_out:
                self._loops += 1
            if self._may_break_out and (self._loop_was_verified or not self._available):
                # A way out of a loop that the cloud has confirmed is not verified again: it would loop on.
                size = min(size, SOLO_BLOCK) if whole else size
                way_out = self.drafter.propose(self.text, size, self.gate.open(start), top_k=settings.loop_top_k)
                draft = replace(way_out, reason=None, ms=draft.ms + way_out.ms)
            elif self.gate.name != "always":
                draft = replace(draft, reason="loop")
        if draft.reason is None and draft.ids and settings.mode == "hybrid" and self._available:
            draft = replace(draft, reason=self.stop.fault(self.text, draft.ids))
        return draft

    def _ended(self, state: GateState) -> bool:
        """Whether the text, with the block so far, ends with the token that the gate read last."""
        text = (*self.text, *(token.id for token in state.evidence))
        return self.stop.first_stop(text, len(text) - 1) is not None

    def _verify(self, verifier: Verifier, draft: Draft) -> Verdict | None:
        """The cloud's verdict on a block; None if it fails, and the edge goes on alone. Raises as `_give_up` does."""
        settings, run_on, before = self.settings, self.settings.run_on, verifier.work.forwards
        if not draft.ids:
            alone = self.cloud_alone or self._edge_failed is not None
            run_on = (CLOUD_CHUNK if alone else SOLO_BLOCK) - 1
        run_on = max(min(run_on, settings.max_new_tokens - len(self.text) - 1), 0)
        try:
            if not self.verify_async:
                with self.release_slot() if verifier.elsewhere else nullcontext():
                    verdict = verifier.verify(self.text, draft, run_on)
            else:
                future = self._submit(verifier.verify, self.text, draft, run_on)
                if self.drafter is not None and not self.cloud_alone and self._drafts_ahead:
                    written, k, most = (*self.text, *draft.ids), most_drafted(settings), settings.max_new_tokens
                    self.drafter.draft_ahead(self.gate, k, most, written, future, self._loop_rule)
                with self.release_slot():
                    verdict = future.result()
        except CloudError as error:
            self._give_up(error)
            return None
        if not verdict.prefilled:
            forwards = max(verifier.work.forwards - before, 1)
            self.costs.took("verification", verdict.ms / forwards + (verdict.network_ms or 0.0))
        self._cloud_called = True
        return verdict

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> tuple[Round, FinishReason | None]:
        """Adds a block to the text, as far as stop rules and loops let it."""
        if not isinstance(self.length, int):
            self.length.learn(draft, verdict)
        start = len(self.text)
        by: Decider = "cloud" if self.settings.mode == "cloud" else "edge"
        ids, sources, alternatives = outcome(draft, verdict, by, self.top_n)
        text = (*self.text, *ids)
        end, finish = self.stop.first_stop(text, start) or (len(text), None)
        looped = self._loop_rule.end(text[:end], start)
        if looped is None or (finish and looped == end):
            self._loop_was_verified = False
        elif self._may_break_out and verdict is not None and not self._loop_was_verified:
            # confirmed by the cloud: the edge may still try to break out of it
            self._loop_was_verified, end, finish = True, looped, None
            self._loops += 1
        else:
            end, finish = looped, "loop"
        self.text = text[:end]
        drafts_ahead = self.drafter is not None and self._executor is not None and self.settings.draft_ahead != "off"
        round_ = round_of(
            index,
            draft,
            verdict,
            committed_ids=self.text[start:],
            source=tuple(sources[: end - start]),
            alternatives=tuple(alternatives[: end - start]) if self.top_n else (),
            hidden_ms=draft.hidden_ms if drafts_ahead else None,
            thrown_away=0 if self.drafter is None else self.drafter.keep(None if finish else self.text),
        )
        return round_, finish

    @property
    def _available(self) -> bool:
        return self.verifier is not None and self._degraded is None

    @property
    def _why_cloud(self) -> str | None:
        return self._edge_failed and f"{self._edge_failed}; from there on the cloud wrote alone"

    @property
    def _drafts_ahead(self) -> bool:
        """Whether the edge drafts on; by itself where a verification takes two steps: the first one guesses."""
        ahead = self.settings.draft_ahead
        return ahead == "on" or (ahead == "auto" and (self.costs.ratio or 0.0) <= _STEP_AHEAD)

    @property
    def _loop_rule(self) -> LoopRule:
        return self.stop.loop.after(self._loops)

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop; a text that the cloud promises to equal is never bent, only ended."""
        return self.settings.mode in ("hybrid", "edge") or self._degraded is not None

    @property
    def _guessing(self) -> Iterator[tuple[Rows, Collection[Source]]]:
        """What guesses in this process, and the sources of the tokens that are each model's own."""
        if self.settings.lookup_tokens == 0:
            return
        drafts: Decider = "cloud" if self.settings.mode == "cloud" else "edge"
        if self.drafter is not None and self.drafter.rows is not None:
            yield self.drafter.rows, OWN[drafts]
        if self.verifier is not None and self.verifier.rows is not None:
            yield self.verifier.rows, OWN["cloud"]

    @property
    def _work(self) -> tuple[ModelWork | None, ModelWork | None]:
        """Each model's work: (edge, cloud)."""
        drafting = self.drafter.work if self.drafter is not None else None
        verifying = self.verifier.work if self.verifier is not None else None
        return (None, verifying or drafting) if self.settings.mode == "cloud" else (drafting, verifying)

    def _new_prefills(self, seen: set[str]) -> Iterator[Prefill]:
        roles: tuple[Decider, Decider] = ("edge", "cloud")
        for role, work in zip(roles, self._work, strict=True):
            if work is not None and work.prefill_ms > 0 and role not in seen:  # a vLLM does not say
                seen.add(role)
                yield Prefill(role, work.prompt_tokens, work.encoder_ms, work.prefill_ms)

    def _give_up(self, error: CloudError) -> None:
        """Goes on without the cloud for the rest of the clip; raises `error` where that cannot or must not be."""
        if self.drafter is None or not self.settings.degrades or self._edge_failed is not None:
            raise error
        self._degraded = error.message
        if self.settings.mode == "lossless":
            self._degraded += "; from there on the text is the edge's own, and not lossless"

    def _prefill_early(self) -> None:
        """Lets the cloud read the clip before anything escalates, if the settings say so."""
        reading = self.settings.cloud_prefill
        self._cloud_called = self.verifier is not None and reading in ("early", "overlap")
        if self.verifier is not None and self.reads_ahead:  # if it fails, so does the first verification
            self._submit(self.verifier.prefill)
        elif self.verifier is not None and reading == "early":
            try:
                self.verifier.prefill()
            except CloudError as error:
                self._give_up(error)

    def _submit(self, call: Callable[..., T], *args: object) -> Future[T]:
        if self._executor is None and self.drafter is not None and self.drafter.elsewhere:
            self._executor = ThreadPoolExecutor(1, "cloud")
        elif self._executor is None:
            import torch

            # the number of threads counts for the thread that sets it alone
            self._executor = ThreadPoolExecutor(1, "cloud", torch.set_num_threads, (torch.get_num_threads(),))
        return self._executor.submit(call, *args)

    def _close(self) -> None:
        """Ends what is under way, so that nothing is left behind."""
        for model in (self.verifier, self.drafter):
            if model is not None:
                model.close()
        if self._executor is not None:
            with self.release_slot():  # a verification under way may wait until no clip is at work
                self._executor.shutdown(wait=True, cancel_futures=True)


class _Clock:
    """Milliseconds since the start, without the time that the reader of the events takes."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def paused(self, *events: Event) -> Iterator[Event]:
        """Yields events while the clock stands still."""
        began = time.perf_counter()
        yield from events
        self._started += time.perf_counter() - began

    @property
    def ms(self) -> float:
        return (time.perf_counter() - self._started) * 1e3
