"""The decoding loop: draft, verify, commit, stop. It knows token ids only.

The gate reads each token while it is drafted; `Draft.reason` says what it decided.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import AnyDrafter, AnyVerifier, Block, Draft, Enough, Event, Verdict, outcome
from specdec_cli.decoding.failures import Failures
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.length import SOLO_BLOCK, BlockLength
from specdec_cli.decoding.prefill import CloudPrefill
from specdec_cli.decoding.stop import StopRules, TextEnd
from specdec_cli.decoding.work import ClipWork, Clock
from specdec_cli.errors import CloudError, EdgeError
from specdec_cli.types import Finished, FinishReason, Sent


@dataclass(eq=False)
class Loop:
    """Decodes one clip."""

    # the edge, or a loaded cloud that writes alone; None if a remote cloud writes alone
    drafter: AnyDrafter | None
    verifier: AnyVerifier | None  # the cloud; None if the drafter writes alone
    gate: Gate
    stop: StopRules
    settings: DecodingConfig
    prefill: CloudPrefill
    top_n: int = 0  # most likely tokens to name at each committed one
    text: tuple[int, ...] = field(default=(), init=False)  # the committed token ids
    finish: FinishReason | None = field(default=None, init=False)  # why the text has ended; None: it goes on

    def __post_init__(self) -> None:
        self._length = BlockLength(self.settings)
        self._end = TextEnd(self.stop)
        self._failures = Failures(self.settings)

    def run(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Block per round, and Finished. Closing it cancels what is running."""
        clock, work = Clock(), ClipWork(self)
        blocks, ttft_ms = list[Block](), 0.0
        try:
            self._prefill_early()
            for event in self._rounds():
                if isinstance(event, Sent):
                    yield from clock.paused(event)
                    continue
                blocks.append(event)
                ttft_ms = ttft_ms or clock.ms
                yield from clock.paused(*work.new_prefills(), event)
            total_ms = clock.ms
            tokens = [token for block in blocks for token in block.tokens]
            work.learn(tokens)
        finally:
            for model in (self.verifier, self.drafter):
                if model is not None and model.is_remote:
                    model.close()
            self.prefill.close()
        # only after `close`: a cloud that was still reading the clip has worked as well
        assert self.finish is not None
        guessed, guesses_kept = work.guesses
        yield Finished(
            self.text,
            self.finish,
            work.edge,
            work.cloud,
            ttft_ms,
            total_ms,
            degraded=self._failures.degraded,
            guessed=guessed,
            guesses_kept=guesses_kept,
        )

    def _rounds(self) -> Iterator[Sent | Block]:
        """The rounds: yields each block when it is committed, and `Sent` before the cloud gets it, if that may last."""
        index = 0
        while self.finish is None:
            draft, verdict = self._draft(), None
            if (cloud := self._cloud) is not None and (draft.reason or not draft.ids):
                if cloud.is_remote or self.settings.cloud_prefill == "overlap":
                    yield Sent(index, draft.ids)
                verdict = self._verify(cloud, draft)
                if verdict is None and not draft.ids:
                    continue  # the cloud failed, and the edge writes this block
            yield self._commit(index, draft, verdict)
            index += 1

    def _draft(self) -> Draft:
        """The edge's block; without an edge, or if it fails, an empty one: the cloud writes it."""
        if (edge := self._edge) is not None:
            try:
                return self._draft_with(edge)
            except EdgeError as error:
                self._failures.of_edge(error, cloud_left=self._cloud is not None)
        return Draft(reason="always" if self.settings.mode == "lossless" else None)

    def _draft_with(self, edge: AnyDrafter) -> Draft:
        """Drafts a block. `reason` says why to verify it: the gate, a loop, or a refusal in the text."""
        settings, start, available = self.settings, len(self.text), self._cloud is not None
        whole = settings.defers and available
        size = self._length.next(start, whole=whole, cloud_writes=available)
        waking = whole and not self.prefill.begun and settings.mode == "hybrid"
        draft = self._propose(edge, size, self.gate.open(waking=waking, whole=whole), self._enough(whole=whole))
        if self._end.loops((*self.text, *draft.ids), start):
            return self._leave_loop(edge, draft, min(size, SOLO_BLOCK) if whole else size)
        if draft.reason is None and draft.ids and settings.mode == "hybrid" and available:
            draft = replace(draft, reason=self.stop.fault(self.text, draft.ids))
        return draft

    def _leave_loop(self, edge: AnyDrafter, looping: Draft, size: int) -> Draft:
        """The draft that ends in a loop, to be verified; if the cloud cannot help, `size` tokens that are drawn."""
        if self._may_break_out:
            self._end.leave()
            # a cloud that has confirmed this loop would reject a way out, and loop on
            if self._end.loop_was_verified or self._cloud is None:
                way_out = self._propose(edge, size, self.gate.open(), None, self.settings.loop_top_k)
                return replace(way_out, reason=None, ms=looping.ms + way_out.ms)
        return looping if self.gate.name == "always" else replace(looping, reason="loop")

    def _enough(self, *, whole: bool) -> Enough | None:
        """A rule that may end the next block before its most tokens; `whole`: it is a deferred draft."""
        if whole:
            return partial(self._end.reached, self.text) if self.stop.reads_text else None
        return self._length.enough if self.settings.adapts else None

    def _propose(
        self, edge: AnyDrafter, size: int, state: GateState, enough: Enough | None, top_k: int | None = None
    ) -> Draft:
        """Up to `size` tokens of the edge; see `Drafter.propose`."""
        with self._waits_for(edge):
            draft = edge.propose(self.text, size, state, enough, top_k)
        self._length.add_draft(draft)
        return draft

    def _verify(self, cloud: AnyVerifier, draft: Draft) -> Verdict | None:
        """The cloud's verdict on a block, and tokens of its own; None if it fails and the edge writes the rest."""
        run_on = 0 if draft.ids else self._length.written_alone(len(self.text), edge_left=self._edge is not None)
        self.prefill.join()
        try:
            with self._waits_for(cloud):
                verdict = cloud.verify(self.text, draft, run_on)
        except CloudError as error:
            self._failures.of_cloud(error, edge_left=self._edge is not None)
            return None
        self._length.add_verdict(draft, verdict)
        return verdict

    def _waits_for(self, model: AnyDrafter | AnyVerifier) -> AbstractContextManager[None]:
        """Around a call of a model. While a remote one answers, forwards of other clips do not wait for this clip."""
        return self.prefill.step_aside() if model.is_remote else nullcontext()

    def _prefill_early(self) -> None:
        """Lets the cloud read the clip before any block escalates, if the settings say so."""
        if self.verifier is None:
            return
        try:
            self.prefill.begin(self.verifier)
        except CloudError as error:
            self._failures.of_cloud(error, edge_left=self._edge is not None)

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> Block:
        """Adds a block to the text, up to where a stop rule or a loop ends it."""
        start = len(self.text)
        tokens = outcome(draft, verdict, "cloud" if self.settings.mode == "cloud" else "edge", self.top_n)
        text = (*self.text, *(token.id for token in tokens))
        end, self.finish = self._end.of(text, start, verified=verdict is not None, may_leave=self._may_break_out)
        self.text = text[:end]
        return Block(index, replace(draft, scores=None), verdict, tuple(tokens[: end - start]))

    @property
    def _edge(self) -> AnyDrafter | None:
        """The drafter; None once it has failed."""
        return self.drafter if self._failures.edge is None else None

    @property
    def _cloud(self) -> AnyVerifier | None:
        """The verifier; None once it has failed."""
        return self.verifier if self._failures.cloud is None else None

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop. A text that must equal the cloud's is never changed, only ended."""
        free = self.settings.mode in ("hybrid", "edge") or self._failures.cloud is not None
        return free and self._edge is not None
