"""The decoding loop: draft, gate, verify, commit. It knows token ids and tensors only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final, TypeVar

import torch

from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.ahead import draft_ahead
from specdec_cli.decoding.draft import Draft, Drafter
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import ALONE, BlockLength, Costs, most_drafted
from specdec_cli.decoding.stop import LoopRule, StopRules
from specdec_cli.decoding.verify import Verifier
from specdec_cli.errors import CloudError
from specdec_cli.types import Event, Finished, FinishReason, ModelWork, Prefill, Round, Sent, Source

CLOUD_CHUNK: Final = 16
"""Tokens that a cloud elsewhere generates at a time in cloud mode. More would save round trips, and delay the view."""
_TURN_S: Final = 1e-4  # Python's own 5 ms lets a step of half a millisecond wait for a hundred

T = TypeVar("T")
Away = Callable[[], AbstractContextManager[None]]
"""Entered while the loop waits for something else than a forward; see `Shared.away`."""


class Loop:
    """Decodes one clip.

    Args:
        drafter: proposes blocks: the edge, or the cloud in cloud mode; None where a cloud elsewhere generates alone.
        verifier: judges escalated blocks; None in the modes of one model.
        gate: decides which blocks escalate.
        stop: the stop rules.
        settings: of the run.
        length: how far each block is drafted.
        costs: what steps and verifications take, for `length`.
        beside: whether the verifier works while the edge drafts on, in a thread of its own.
        away: entered while the loop waits for a verdict from elsewhere.
    """

    def __init__(
        self,
        drafter: Drafter | None,
        verifier: Verifier | None,
        gate: Gate,
        stop: StopRules,
        settings: DecodingConfig,
        length: BlockLength,
        *,
        costs: Costs | None = None,
        beside: bool = False,
        away: Away = nullcontext,
    ) -> None:
        self._drafter = drafter
        self._verifier = verifier
        self._gate = gate
        self._stop = stop
        self._settings = settings
        self._length = length
        self._costs = costs or Costs()
        self._beside = beside
        self._away = away
        self._loop = LoopRule(settings.loop_period, settings.loop_repeats)
        self._executor: ThreadPoolExecutor | None = None
        self._text: list[int] = []
        self._loop_was_verified = False
        self._degraded: str | None = None

    @property
    def text(self) -> tuple[int, ...]:
        """The committed token ids."""
        return tuple(self._text)

    def run(self) -> Generator[Event, None, None]:
        """Yields a Prefill per model, a Round per block, and Finished.

        A block that is verified elsewhere is announced by a Sent. Stopping to read ends what is under way.
        """
        clock = _Clock()
        seen: set[str] = set()
        finish: FinishReason | None = None
        index, ttft_ms = 0, None
        try:
            self._begin()
            while finish is None:
                draft, verdict = self._draft(), None
                if self._available and (draft.reason is not None or not draft.ids):
                    if self._verifier is not None and (self._beside or self._verifier.elsewhere):
                        yield from clock.paused(Sent(index, draft.ids))
                    verdict = self._verify(draft)
                    if verdict is None and not draft.ids:
                        continue  # the cloud failed, and the edge writes this block
                event, finish = self._commit(index, draft, verdict)
                ttft_ms = clock.ms if ttft_ms is None else ttft_ms
                yield from clock.paused(*self._new_prefills(seen), event)
                index += 1
            yield Finished(self.text, finish, *self._work(), ttft_ms or 0.0, clock.ms, self._degraded)
        finally:
            self._close()

    def _begin(self) -> None:
        """Lets the cloud read the clip early, if the settings say so."""
        if self._verifier is None or self._settings.cloud_prefill == "lazy":
            return
        try:
            if self._settings.cloud_prefill == "early":
                self._verifier.prefill()
            else:  # whether it fails need not be known: the first verification would fail as well
                self._submit(self._verifier.prefill)
        except CloudError as error:
            self._give_up(error)

    def _draft(self) -> Draft:
        """A block, and why it should be verified: what the gate finds, or a loop that the edge runs into."""
        if self._drafter is None:
            return Draft()
        start, settings = len(self._text), self._settings
        least = 0 if self._available else 1  # somebody has to write
        size = min(max(self._length.most(), least), settings.max_new_tokens - start)
        before = self._drafter.work
        draft = self._drafter.propose(self._text, size, self._gate.open(start), self._length.enough)
        if self._loop.end([*self._text, *draft.ids], start) is not None:
            if self._may_break_out and (self._loop_was_verified or not self._available):
                # A way out of a loop that the cloud has confirmed is not verified again: it would loop on.
                way_out = self._drafter.propose(self._text, size, self._gate.open(start), top_k=settings.loop_top_k)
                draft = replace(way_out, reason=None, ms=draft.ms + way_out.ms)
            elif self._gate.name != "always":
                draft = replace(draft, reason="loop")
        self._costs.drafted(before, self._drafter.work)
        return draft

    def _verify(self, draft: Draft) -> Verdict | None:
        """What the cloud finds of a block; None if it fails, and the edge goes on alone.

        Raises:
            CloudError: the cloud failed, and the mode or the settings need it.
        """
        assert self._verifier is not None
        text, run_on = tuple(self._text), self._run_on(draft)
        try:
            if not self._beside:
                with self._away() if self._verifier.elsewhere else nullcontext():
                    verdict = self._verifier.verify(text, draft, run_on)
            else:
                future = self._submit(self._verifier.verify, text, draft, run_on)
                if self._drafter is not None and self._settings.draft_ahead != "off":
                    k, most = most_drafted(self._settings), self._settings.max_new_tokens
                    draft_ahead(self._drafter, self._gate, k, most, (*text, *draft.ids), future, self._loop)
                with self._away():
                    verdict = future.result()
        except CloudError as error:
            self._give_up(error)
            return None
        self._costs.verified(verdict)
        return verdict

    def _run_on(self, draft: Draft) -> int:
        """Tokens that the cloud is to generate after its own one."""
        wanted = self._settings.run_on
        if not draft.ids:
            wanted = (CLOUD_CHUNK if self._settings.mode == "cloud" else ALONE) - 1
        return max(min(wanted, self._settings.max_new_tokens - len(self._text) - 1), 0)

    def _commit(self, index: int, draft: Draft, verdict: Verdict | None) -> tuple[Round, FinishReason | None]:
        """Adds a block to the text, as far as stop rules and loops let it."""
        self._length.learn(draft, verdict)
        start = len(self._text)
        ids, sources = self._new_tokens(draft, verdict)
        text = [*self._text, *ids]
        end, finish = self._stop.first_stop(text, start) or (len(text), None)
        looped = self._loop.end(text[:end], start)
        if looped is None or (finish and looped == end):
            self._loop_was_verified = False
        elif self._may_break_out and verdict is not None and not self._loop_was_verified:
            self._loop_was_verified = True  # the cloud's own word: the edge may still try to break out of it
        else:
            end, finish = looped, "loop"
        self._text = text[:end]
        return self._round(index, draft, verdict, self._text[start:], sources[: end - start], finish), finish

    def _new_tokens(self, draft: Draft, verdict: Verdict | None) -> tuple[Sequence[int], list[Source]]:
        """What a round adds before stop rules, and where each token comes from."""
        if verdict is None:
            source: Source = "cloud" if self._settings.mode == "cloud" else "edge"
            return draft.ids, [source] * len(draft.ids)
        own: Source = "bonus" if verdict.accepted == len(draft.ids) else "corrected"
        sources: list[Source] = ["accepted"] * verdict.accepted
        sources.append(own if draft.ids else "cloud")
        sources.extend("cloud" for _ in verdict.more)
        return (*draft.ids[: verdict.accepted], verdict.token, *verdict.more), sources

    def _round(
        self,
        index: int,
        draft: Draft,
        verdict: Verdict | None,
        committed: Sequence[int],
        sources: Sequence[Source],
        finish: FinishReason | None,
    ) -> Round:
        ahead = self._drafter.ahead if self._drafter is not None else None
        drafts_ahead = self._beside and ahead is not None and self._executor is not None
        useless = 0 if ahead is None else ahead.keep(self._text) if finish is None else ahead.drop()
        return Round(
            index=index,
            draft_ids=draft.ids,
            entropy=tuple(token.entropy for token in draft.evidence),
            score=draft.figures,
            margin=tuple(token.margin for token in draft.evidence),
            logprob=tuple(token.logprob for token in draft.evidence),
            candidates=tuple(token.candidates for token in draft.evidence),
            escalated=verdict is not None and draft.reason is not None,
            reason=draft.reason if verdict is not None else None,
            accepted=verdict.accepted if verdict is not None else len(draft.ids),
            committed_ids=tuple(committed),
            source=tuple(sources),
            draft_ms=draft.ms,
            verify_ms=verdict.ms if verdict is not None else None,
            network_ms=verdict.network_ms if verdict is not None else None,
            hidden_ms=draft.hidden_ms if drafts_ahead and self._settings.draft_ahead != "off" else None,
            thrown_away=useless,
            near_ties=verdict.near_ties if verdict is not None else None,
            bytes_up=verdict.bytes_up if verdict is not None else None,
            bytes_down=verdict.bytes_down if verdict is not None else None,
        )

    @property
    def _available(self) -> bool:
        """Whether there is a cloud to verify with."""
        return self._verifier is not None and self._degraded is None

    @property
    def _may_break_out(self) -> bool:
        """Whether the edge may leave a loop; a text that the cloud promises to equal is never bent, only ended."""
        return self._settings.mode in ("hybrid", "edge") or self._degraded is not None

    def _give_up(self, error: CloudError) -> None:
        """Goes on without the cloud for the rest of the clip; raises `error` where that cannot or must not be."""
        if self._settings.require_cloud or self._settings.mode == "cloud":
            raise error
        self._degraded = error.message
        if self._settings.mode == "lossless":
            self._degraded += "; from there on the text is the edge's own, and not lossless"

    def _work(self) -> tuple[ModelWork | None, ModelWork | None]:
        """Each model's work: (edge, cloud)."""
        drafting = self._drafter.work if self._drafter is not None else None
        verifying = self._verifier.work if self._verifier is not None else None
        return (None, verifying or drafting) if self._settings.mode == "cloud" else (drafting, verifying)

    def _new_prefills(self, seen: set[str]) -> Iterator[Prefill]:
        edge, cloud = self._work()
        if edge is not None and edge.forwards and "edge" not in seen:
            seen.add("edge")
            yield Prefill("edge", edge.prompt_tokens, edge.encoder_ms, edge.prefill_ms)
        if cloud is not None and cloud.prefill_ms > 0 and "cloud" not in seen:  # a vLLM does not say
            seen.add("cloud")
            yield Prefill("cloud", cloud.prompt_tokens, cloud.encoder_ms, cloud.prefill_ms)

    def _submit(self, call: Callable[..., T], *args: object) -> Future[T]:
        if self._executor is None:
            _short_turns.begin()
            # the number of threads counts for the thread that sets it alone
            self._executor = ThreadPoolExecutor(1, "cloud", torch.set_num_threads, (torch.get_num_threads(),))
        return self._executor.submit(call, *args)

    def _close(self) -> None:
        """Ends what is under way, so that nothing is left behind."""
        if self._verifier is not None:
            self._verifier.close()
        if self._executor is not None:
            try:
                with self._away():  # a verification under way may wait until no clip is at work
                    self._executor.shutdown(wait=True, cancel_futures=True)
            finally:
                _short_turns.end()


class _ShortTurns:
    """Lets Python's threads take short turns as long as a loop works beside its cloud; clips of a batch overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops = 0
        self._before_s = 0.0

    def begin(self) -> None:
        """One more loop."""
        with self._lock:
            if self._loops == 0:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, _TURN_S))
            self._loops += 1

    def end(self) -> None:
        """One loop less; after the last one, turns are as long as before the first."""
        with self._lock:
            self._loops -= 1
            if self._loops == 0:
                sys.setswitchinterval(self._before_s)


_short_turns = _ShortTurns()


class _Clock:
    """Milliseconds since the start, without the time that the reader of the events takes."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._reading_s = 0.0

    def paused(self, *events: Event) -> Iterator[Event]:
        """Yields events while the clock stands still."""
        began = time.perf_counter()
        yield from events
        self._reading_s += time.perf_counter() - began

    @property
    def ms(self) -> float:
        """So far."""
        return (time.perf_counter() - self._started - self._reading_s) * 1e3
