"""The decoding loop, as the papers on speculative decoding write it: draft, gate, verify, commit.

It knows token ids only. The gate reads each token while it is drafted; `Draft.reason` says what it decided.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

import torch

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import Block, Draft, Drafter, Enough, Event, Verdict, Verifier, tokens_of
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import SOLO_BLOCK, BlockLength
from specdec_cli.decoding.stop import StopRules, TextEnd
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import Decider, Finished, FinishReason, ModelWork, Prefill, Sent

_WAY_OUT: Final = 10  # likeliest tokens, of which the edge draws to leave a repetition


@dataclass(eq=False)
class Loop:
    """Decodes one clip."""

    drafter: Drafter | None  # the edge, or a loaded cloud that writes alone; None: a remote cloud writes alone
    verifier: Verifier | None  # the cloud; None if the drafter writes alone
    gate: Gate
    stop: StopRules
    settings: DecodingConfig
    cloud_prefill: CloudPrefill
    top_n: int = 0  # most likely tokens to name at each committed one
    text_ids: tuple[int, ...] = field(default=(), init=False)  # the committed token ids
    finish: FinishReason | None = field(default=None, init=False)  # why the text has ended; None: it goes on

    def __post_init__(self) -> None:
        self._length, self._end = BlockLength(self.settings), TextEnd(self.stop)
        self._failed = dict[Decider, str]()  # model -> why the other one writes the rest: one at most
        self._prefilled = set[Decider]()  # models whose prefill was reported
        self._began = 0.0  # `time.perf_counter`, without the time that the reader of the events takes

    def events(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Block per round, and Finished. Closing it cancels what is running."""
        self._began, ttft_ms, index = time.perf_counter(), 0.0, 0
        try:
            self._prefill_cloud()
            while self.finish is None:
                try:
                    draft, verdict = self._draft(), None
                except EdgeError as error:
                    self._leave_to_cloud(error)
                    continue
                if (cloud := self._cloud) is not None and (draft.reason or not draft.ids):
                    if cloud.is_remote or self.settings.cloud_prefill == "overlap":  # it may last
                        yield from self._untimed(Sent(index, draft.ids))
                    verdict = self._verify(cloud, draft)
                    if verdict is None and not draft.ids:
                        continue  # the cloud failed, and the edge writes this block
                block = self._commit(index, draft, verdict)
                ttft_ms = ttft_ms or self._ms
                yield from self._untimed(*self._new_prefills(), block)
                index += 1
            total_ms = self._ms
        finally:
            for model in (self.verifier, self.drafter):
                if model is not None:
                    model.close()
            self.cloud_prefill.close()
        # only after `close`: a cloud that was still reading the clip has worked as well
        edge, cloud_work = self._work("edge"), self._work("cloud")
        yield Finished(self.text_ids, self.finish, edge, cloud_work, ttft_ms, total_ms, self._degraded)

    def _draft(self) -> Draft:
        """The edge's block; without an edge an empty one: the cloud writes it.

        Its `reason` is the gate's, a repetition or a refusal; None: it need not be verified.
        """
        settings, start, available = self.settings, len(self.text_ids), self._cloud is not None
        if (edge := self._edge) is None:
            return Draft(reason="always" if settings.mode == "lossless" else None)
        whole = settings.defers and available
        size = self._length.next(start, whole=whole, cloud_writes=available)
        waking = whole and not self.cloud_prefill.begun and settings.mode == "hybrid"
        with self._waits_for(edge):
            state, enough = self.gate.open(waking=waking, whole=whole), self._enough(whole=whole)
            draft = edge.propose(self.text_ids, size, state, enough)
        self._length.add_draft(draft)
        if self._end.repeats((*self.text_ids, *draft.ids), start):
            return self._leave_repetition(edge, draft, min(size, SOLO_BLOCK) if whole else size)
        if draft.reason is None and draft.ids and settings.mode == "hybrid" and available:
            draft = replace(draft, reason=self.stop.fault(self.text_ids, draft.ids))
        return draft

    def _leave_repetition(self, edge: Drafter, repeating: Draft, size: int) -> Draft:
        """The repeating draft, to be verified; if the cloud cannot help, a draft of `size` tokens that are drawn."""
        if self._may_break_out:
            self._end.leave()
            # a cloud that has confirmed this repetition would reject a way out, and repeat on
            if self._end.repetition_was_verified or self._cloud is None:
                with self._waits_for(edge):
                    way_out = edge.propose(self.text_ids, size, self.gate.open(), top_k=_WAY_OUT)
                self._length.add_draft(way_out)
                return replace(way_out, reason=None, ms=repeating.ms + way_out.ms)
        return repeating if self.gate.name == "always" else replace(repeating, reason="loop")

    def _enough(self, *, whole: bool) -> Enough | None:
        """A rule that may end the next block before its most tokens; `whole`: it is a deferred draft."""
        if whole:
            kept = self.settings.mode == "hybrid"  # without a verdict
            return partial(self._end.reached, self.text_ids, kept) if self.stop.reads_text else None
        return self._length.enough if self.settings.adapts else None

    def _prefill_cloud(self) -> None:
        """Starts the cloud's prefill before any block escalates, unless `cloud_prefill` is lazy, as by default."""
        if self.verifier is None:
            return
        try:
            self.cloud_prefill.begin(self.verifier)
        except CloudError as error:
            self._leave_to_edge(error)

    def _verify(self, cloud: Verifier, draft: Draft) -> Verdict | None:
        """The cloud's verdict on a block, and tokens of its own; None if it fails and the edge writes the rest."""
        run_on = 0 if draft.ids else self._length.written_alone(len(self.text_ids), edge_left=self._edge is not None)
        self.cloud_prefill.join()
        try:
            with self._waits_for(cloud):
                verdict = cloud.verify(self.text_ids, draft, run_on)
        except CloudError as error:
            self._leave_to_edge(error)
            return None
        self._length.add_verdict(draft, verdict)
        return verdict

    def _leave_to_cloud(self, error: EdgeError) -> None:
        """Leaves the rest to the cloud; raises `error` if there is none left, or the settings do not allow it."""
        if self._cloud is None or self.settings.fallback != "on":
            raise error
        self._failed["edge"] = error.message

    def _leave_to_edge(self, error: CloudError) -> None:
        """Leaves the rest to the edge; raises `error` if there is none left, or the settings do not allow it."""
        if self._edge is None or not self.settings.degrades:
            raise error
        self._failed["cloud"] = error.message

    def _waits_for(self, model: Drafter | Verifier) -> AbstractContextManager[None]:
        """Around a call of a model. While a remote one answers, forwards of other clips do not wait for this clip."""
        return self.cloud_prefill.step_aside() if model.is_remote else nullcontext()

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> Block:
        """Adds a block to the text, up to where a stop rule or a repetition ends it."""
        start = len(self.text_ids)
        tokens = tokens_of(draft, verdict, "cloud" if self.settings.mode == "cloud" else "edge", self.top_n)
        text_ids = (*self.text_ids, *(token.id for token in tokens))
        end, self.finish = self._end.find(text_ids, start, verified=verdict is not None, may_leave=self._may_break_out)
        self.text_ids = text_ids[:end]
        return Block(index, replace(draft, scores=None), verdict, tuple(tokens[: end - start]))

    @property
    def _edge(self) -> Drafter | None:
        """The drafter; None once it has failed."""
        return None if "edge" in self._failed else self.drafter

    @property
    def _cloud(self) -> Verifier | None:
        """The verifier; None once it has failed."""
        return None if "cloud" in self._failed else self.verifier

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a repetition. A text that must equal the cloud's is never changed, only ended."""
        return self._edge is not None and (self.settings.mode in ("hybrid", "edge") or "cloud" in self._failed)

    @property
    def _degraded(self) -> str | None:
        """Why one model wrote the rest of the clip alone; None if both lasted."""
        if (reason := self._failed.get("edge")) is not None:
            return f"{reason}; from there on the cloud wrote alone"
        reason = self._failed.get("cloud")
        if reason is not None and self.settings.mode == "lossless":
            return f"{reason}; from there on the text is the edge's own, and not lossless"
        return reason

    def _work(self, role: Decider) -> ModelWork | None:
        """A model's work so far; None if the mode does not use it. In cloud mode a loaded cloud is the drafter."""
        alone = self.settings.mode == "cloud"
        if role == "edge":
            model: Drafter | Verifier | None = None if alone else self.drafter
        else:
            model = self.verifier or (self.drafter if alone else None)
        return None if model is None else model.work

    def _new_prefills(self) -> Iterator[Prefill]:
        """Yields each model's prefill, once, when it is done. A vLLM server reports none."""
        roles: tuple[Decider, ...] = ("edge", "cloud")
        for role in roles:
            work = self._work(role)
            if work is not None and work.prefill_ms > 0 and role not in self._prefilled:
                self._prefilled.add(role)
                yield Prefill(role, work.prompt_tokens, work.encoder_ms, work.prefill_ms)

    def _untimed(self, *events: Event) -> Iterator[Event]:
        """Yields events; the time that their reader takes is not measured."""
        began = time.perf_counter()
        yield from events
        self._began += time.perf_counter() - began

    @property
    def _ms(self) -> float:
        return (time.perf_counter() - self._began) * 1e3


@dataclass(eq=False)
class CloudPrefill:
    """The cloud's prefill of one clip, in the clip's own thread or in another one.

    Attributes:
        begun: true once the cloud's prefill of this clip has begun, so that a further call costs little.
    """

    when: Literal["lazy", "early", "overlap"]
    step_aside: Callable[[], AbstractContextManager[None]] = nullcontext  # around waits that are not for a forward
    begun: bool = field(default=False, init=False)
    _thread: ThreadPoolExecutor | None = field(default=None, init=False)
    _reading: Future[None] | None = field(default=None, init=False)

    def begin(self, cloud: Verifier) -> None:
        """Starts the cloud's prefill, unless it belongs to the first call."""
        if self.when == "early":
            with self.step_aside() if cloud.is_remote else nullcontext():
                cloud.prefill()
        elif self.when == "overlap":
            threads = (torch.get_num_threads(),)  # which hold only in the thread that sets them
            self._thread = ThreadPoolExecutor(1, "cloud", torch.set_num_threads, threads)
            self._reading = self._thread.submit(cloud.prefill)
        self.begun = self.when != "lazy"

    def join(self) -> None:
        """Waits for the prefill in the other thread. If it failed, the next call of the cloud fails.

        That call is the first one.
        """
        if self._reading is not None:
            with self.step_aside():  # the prefill may wait until no clip is at work
                wait([self._reading])
        self.begun = True

    def close(self) -> None:
        """Waits for a running prefill, and ends the thread."""
        if self._thread is not None:
            with self.step_aside():
                self._thread.shutdown(wait=True, cancel_futures=True)
