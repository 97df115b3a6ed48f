"""The decoding loop: draft, gate, verify, commit. It knows token ids and tensors only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.block import Draft, Enough, outcome, round_of
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.length import MOST_DEFERRED, SOLO_BLOCK, BlockLength, Costs, most_drafted
from specdec_cli.decoding.lookup import OWN
from specdec_cli.decoding.stop import LoopRule, StopRules
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import Decider, Event, Finished, FinishReason, ModelWork, Prefill, Round, Sent, Source

if TYPE_CHECKING:
    from specdec_cli.cloud.cloud import RemoteVerifier
    from specdec_cli.cloud.vllm import VllmDrafter
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.rows import Rows
    from specdec_cli.decoding.verify import LocalVerifier

CLOUD_CHUNK: Final = 16  # tokens that a cloud elsewhere writes at a time in cloud mode: more would delay the view
_STEP_AHEAD: Final = 0.5  # a step, in units of a verification, up to which the edge drafts ahead by itself


@dataclass(eq=False)
class Loop:
    """Decodes one clip."""

    # the edge, or the cloud in cloud mode; None where a cloud elsewhere generates alone
    drafter: Drafter | VllmDrafter | None
    verifier: LocalVerifier | RemoteVerifier | None  # of escalated blocks; None in the modes of one model
    gate: Gate
    stop: StopRules
    settings: DecodingConfig
    costs: Costs = field(default_factory=Costs)  # what steps and verifications take
    cloud_is_parallel: bool = False  # on another device, or behind a link: it takes no time from the edge
    release_slot: Callable[[], AbstractContextManager[None]] = nullcontext  # around waits for anything but a forward
    top_n: int = 0  # likeliest tokens to keep of each committed one
    text: tuple[int, ...] = field(default=(), init=False)  # the committed token ids
    _executor: ThreadPoolExecutor | None = field(default=None, init=False)
    _loops: int = field(default=0, init=False)  # found, and left or to be left
    _loop_was_verified: bool = field(default=False, init=False)
    _cloud_called: bool = field(default=False, init=False)  # the cloud has read the clip: further calls cost little
    _cloud_failed: str | None = field(default=None, init=False)  # why the edge writes the rest
    _edge_failed: str | None = field(default=None, init=False)  # why the cloud does

    def __post_init__(self) -> None:
        settings, local = self.settings, self.drafter is not None and not self.drafter.elsewhere
        ahead = settings.draft_ahead == "on" or (settings.draft_ahead == "auto" and self.cloud_is_parallel)
        self._length = BlockLength(settings, self.costs)
        self._may_draft_ahead = ahead and local and self.verifier is not None
        # in a thread beside the edge: what verifies while the edge drafts on, or reads the clip while it drafts
        self._verifies_beside = self._may_draft_ahead or settings.cloud_prefill == "overlap"

    def run(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Round per block, and Finished. Stopping to read ends what is under way."""
        clock, prefilled, sources = _Clock(), set[str](), list[Source]()
        index, ttft_ms, finish = 0, 0.0, None
        try:
            self._prefill_early()
            while finish is None:
                draft, verdict = self._draft(), None
                if (cloud := self._cloud) is not None and (draft.reason or not draft.ids):
                    if self._verifies_beside or cloud.elsewhere:
                        yield from clock.paused(Sent(index, draft.ids))
                    verdict = self._verify(cloud, draft)
                    if verdict is None and not draft.ids:
                        continue  # the cloud failed, and the edge writes this block
                round_, finish = self._commit(index, draft, verdict)
                sources.extend(round_.source)
                ttft_ms = ttft_ms or clock.ms
                yield from clock.paused(*self._new_prefills(prefilled), round_)
                index += 1
            total_ms = clock.ms
            self._learn(sources)
        finally:
            self._close()
        # After the end of what was under way: a cloud that still read the clip has worked as well.
        guesses = [(rows.guessed, rows.guesses_kept) for rows, _ in self._guessing]
        sums = map(sum, zip(*guesses, strict=True)) if guesses else (None, None)
        wrote_alone = self._edge_failed and f"{self._edge_failed}; from there on the cloud wrote alone"
        yield Finished(self.text, finish, *self._work, ttft_ms, total_ms, self._cloud_failed or wrote_alone, *sums)

    def _draft(self) -> Draft:
        """A block, and why it should be verified: what the gate finds, a loop that the edge runs into, or its text."""
        start, settings, available = len(self.text), self.settings, self._cloud is not None
        if self.drafter is None or self._edge_failed is not None:
            return Draft(reason="always" if settings.mode == "lossless" else None)
        whole = settings.defers and available
        size, enough = self._block_size(whole=whole)
        waking = whole and not self._cloud_called and settings.mode == "hybrid"
        before = self.drafter.work
        try:
            state = self.gate.open(start, waking=waking, whole=whole)
            draft = self.drafter.propose(self.text, size, state, enough)
        except EdgeError as error:
            if settings.edge_failed != "cloud" or not available:
                raise
            self._edge_failed = error.message
            return Draft()
        done = self.drafter.work - before
        if (steps := len(draft.ids) - done.encoder_passes) > 0:  # the prefill gives the first one
            self.costs.took("token", done.step_ms / steps)
        if self._loop_rule.end((*self.text, *draft.ids), start) is not None:
            self._loops += self._may_break_out
            if self._may_break_out and (self._loop_was_verified or not available):
                # A way out of a loop that the cloud has confirmed is not verified again: it would loop on.
                size = min(size, SOLO_BLOCK) if whole else size
                way_out = self.drafter.propose(self.text, size, self.gate.open(start), top_k=settings.loop_top_k)
                draft = replace(way_out, reason=None, ms=draft.ms + way_out.ms)
            elif self.gate.name != "always":
                draft = replace(draft, reason="loop")
        if draft.reason is None and draft.ids and settings.mode == "hybrid" and available:
            draft = replace(draft, reason=self.stop.fault(self.text, draft.ids))
        return draft

    def _block_size(self, *, whole: bool) -> tuple[int, Enough | None]:
        """Most tokens of the next block, and what may end it before."""
        enough: Enough | None
        if whole:
            size, enough = MOST_DEFERRED, self._ended if self.stop.reads_text else None
        else:
            size, enough = self._length.most(), self._length.enough if self._length.adapts else None
        if self._cloud is None:
            size = max(size, 1)  # no cloud is left that could write
        return min(size, self.settings.max_new_tokens - len(self.text)), enough

    def _ended(self, state: GateState) -> bool:
        """Whether the text, with the block so far, ends with the token that the gate read last."""
        text = (*self.text, *(token.id for token in state.evidence))
        return self.stop.first_stop(text, len(text) - 1, kept=True) is not None

    def _verify(self, cloud: LocalVerifier | RemoteVerifier, draft: Draft) -> Verdict | None:
        """The cloud's verdict on a block; None if it fails, and the edge goes on alone. Raises as `_give_up` does."""
        settings, run_on, forwards = self.settings, self.settings.run_on, cloud.work.forwards
        if not draft.ids:
            alone = self.drafter is None or self._edge_failed is not None
            run_on = (CLOUD_CHUNK if alone else SOLO_BLOCK) - 1
        run_on = max(min(run_on, settings.max_new_tokens - len(self.text) - 1), 0)
        try:
            if not self._verifies_beside:
                with self.release_slot() if cloud.elsewhere else nullcontext():
                    verdict = cloud.verify(self.text, draft, run_on)
            else:
                future = self._submit(cloud.verify, self.text, draft, run_on)
                if self._pays_to_draft_ahead and self.drafter is not None:
                    written, k, most = (*self.text, *draft.ids), most_drafted(settings), settings.max_new_tokens
                    self.drafter.draft_ahead(self.gate, k, most, written, future, self._loop_rule)
                with self.release_slot():
                    verdict = future.result()
        except CloudError as error:
            self._give_up(error)
            return None
        if not verdict.prefilled:
            forwards = max(cloud.work.forwards - forwards, 1)
            self.costs.took("verification", verdict.ms / forwards + (verdict.network_ms or 0.0))
        self._cloud_called = True
        return verdict

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> tuple[Round, FinishReason | None]:
        """Adds a block to the text, as far as stop rules and loops let it."""
        self._length.learn(draft, verdict)
        start = len(self.text)
        tokens = outcome(draft, verdict, self._drafts, self.top_n)
        end, finish = self._end((*self.text, *(id_ for id_, _, _ in tokens)), start, verified=verdict is not None)
        tokens = tokens[: end - start]
        self.text = (*self.text, *(id_ for id_, _, _ in tokens))
        round_ = round_of(
            index,
            draft,
            verdict,
            tokens,
            keeps_alternatives=self.top_n > 0,
            hidden_ms=draft.hidden_ms if self._may_draft_ahead and self._executor is not None else None,
            thrown_away=0 if self.drafter is None else self.drafter.keep(None if finish else self.text),
        )
        return round_, finish

    def _end(self, text: Sequence[int], start: int, *, verified: bool) -> tuple[int, FinishReason | None]:
        """How many tokens of `text` stand, at least one after `start`, and why it ends there, if it does."""
        end, finish = self.stop.first_stop(text, start, kept=not verified) or (len(text), None)
        looped = self._loop_rule.end(text[:end], start)
        if looped is None or (finish and looped == end):
            self._loop_was_verified = False
            return end, finish
        if self._may_break_out and verified and not self._loop_was_verified:
            # confirmed by the cloud: the edge may still try to break out of it
            self._loop_was_verified = True
            self._loops += 1
            return looped, None
        return looped, "loop"

    def _learn(self, sources: Sequence[Source]) -> None:
        """Lets later captions be guessed from the clip's text."""
        for rows, own in self._guessing:
            rows.learn(self.text, [source in own for source in sources])

    @property
    def _drafts(self) -> Decider:
        """The role of the drafting model."""
        return "cloud" if self.settings.mode == "cloud" else "edge"

    @property
    def _cloud(self) -> LocalVerifier | RemoteVerifier | None:
        """What verifies, as long as it does not fail."""
        return self.verifier if self._cloud_failed is None else None

    @property
    def _pays_to_draft_ahead(self) -> bool:
        """By itself, the edge drafts on where a verification takes two steps: the first one guesses."""
        pays = self.settings.draft_ahead == "on" or (self.costs.ratio or 0.0) <= _STEP_AHEAD
        return self._may_draft_ahead and pays

    @property
    def _loop_rule(self) -> LoopRule:
        return self.stop.loop.after(self._loops)

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop; a text that the cloud promises to equal is never bent, only ended."""
        return self.settings.mode in ("hybrid", "edge") or self._cloud_failed is not None

    @property
    def _guessing(self) -> Iterator[tuple[Rows, Collection[Source]]]:
        """What guesses in this process, and the sources of the tokens that are each model's own."""
        roles: tuple[Decider, Decider] = (self._drafts, "cloud")
        for model, role in zip((self.drafter, self.verifier), roles, strict=True):
            if self.settings.lookup_tokens and model is not None and model.rows is not None:
                yield model.rows, OWN[role]

    @property
    def _work(self) -> tuple[ModelWork | None, ModelWork | None]:
        """Each model's work: (edge, cloud)."""
        drafting, verifying = (None if model is None else model.work for model in (self.drafter, self.verifier))
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
        self._cloud_failed = error.message
        if self.settings.mode == "lossless":
            self._cloud_failed += "; from there on the text is the edge's own, and not lossless"

    def _prefill_early(self) -> None:
        """Lets the cloud read the clip before anything escalates, if the settings say so."""
        reading = self.settings.cloud_prefill
        if self.verifier is None or reading == "lazy":
            return
        self._cloud_called = True
        if reading == "overlap":  # if it fails, so does the first verification
            self._submit(self.verifier.prefill)
            return
        try:
            self.verifier.prefill()
        except CloudError as error:
            self._give_up(error)

    def _submit(self, call: Callable[..., Any], *args: object) -> Future[Any]:
        if self._executor is None:
            torch = sys.modules.get("torch")  # whose number of threads counts for the thread that sets it alone
            threads = (torch.set_num_threads, (torch.get_num_threads(),)) if torch else ()
            self._executor = ThreadPoolExecutor(1, "cloud", *threads)
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
