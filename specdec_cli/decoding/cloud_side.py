"""The cloud as the engine sees it: asked about a block, here or elsewhere, and given up for the clip when it fails."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.adaptive import ALONE
from specdec_cli.decoding.ahead import draft_ahead
from specdec_cli.decoding.draft import Draft, Drafts
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.generate import CLOUD_CHUNK
from specdec_cli.decoding.lookahead import Flight
from specdec_cli.decoding.loops import LoopEnd
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.run_on import RunOn
from specdec_cli.decoding.verify import Verifier
from specdec_cli.errors import CloudError
from specdec_cli.models.session import Pass, Steps, T, Wait
from specdec_cli.types import ModelWork, Sent

Turns: TypeAlias = Generator[Pass | Wait | Sent, Any, T]
"""`Steps` that also tell that a block is on its way; that wants no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the cloud said, and how long that took it.

    Attributes:
        verdict: its judgement, and what it wrote.
        verify_ms: the cloud's time, milliseconds, without its prefill and the link.
        prefilled: whether the cloud read the clip on that occasion, so that the time is not a whole verification's.
    """

    verdict: Verdict
    verify_ms: float
    prefilled: bool


class CloudSide:
    """Whoever judges escalated blocks of one clip, and what the edge does meanwhile.

    Args:
        verifier: judges; None in the modes of one model.
        drafter: drafts ahead while a verdict is under way elsewhere.
        gate: of the run.
        options: of the run.
        loop_end: where a text that grew from a given length runs into a loop.

    Attributes:
        degraded: why the cloud is no longer asked, None while it is.
        flown: whether a block has been verified elsewhere.
    """

    def __init__(
        self,
        verifier: Verifier | None,
        drafter: Drafts,
        gate: Gate,
        options: DecodingOptions,
        loop_end: LoopEnd,
    ) -> None:
        self.degraded: str | None = None
        self.flown = False
        self._verifier = verifier
        self._drafter = drafter
        self._gate = gate
        self._options = options
        self._loop_end = loop_end
        self._run_on = RunOn(options.run_on)

    @property
    def available(self) -> bool:
        """Whether there is anybody to ask."""
        return self._verifier is not None and self.degraded is None

    @property
    def drafts_ahead(self) -> bool:
        """Whether the edge drafts while blocks are verified elsewhere."""
        return self.flown and self._options.draft_ahead != "off" and self._options.mode != "cloud"

    @property
    def work(self) -> ModelWork | None:
        """What the cloud has done for this clip; None if the mode has none, or it is the drafting model."""
        return None if self._verifier is None else self._verifier.work

    def rollback(self, text: Sequence[int]) -> None:
        """Makes sure that the cloud remembers nothing but `text`."""
        if self._verifier is not None:
            self._verifier.rollback(text)

    def begin(self) -> Steps[None]:
        """Lets the cloud read the clip early, if the options say so."""
        if self._verifier is None:
            return
        try:
            if self._options.cloud_prefill == "early":
                yield from self._verifier.prefill()
            elif self._options.cloud_prefill == "overlap":
                # Whether it fails need not be known: the first verification would fail as well.
                self._verifier.start_prefill()
        except CloudError as error:
            self._give_up(error)

    def drafted(self, draft: Draft, ms: float) -> None:
        """Takes in how long the edge took for a block, milliseconds."""
        self._run_on.drafted(len(draft.ids), ms + draft.hidden_ms)

    def ask(self, index: int, text: Sequence[int], draft: Draft, of_cloud: int) -> Turns[Answer | None]:
        """What the cloud says of a block; None if there is none to ask, or none any more.

        Args:
            index: of the round.
            text: the committed text.
            draft: the block behind it.
            of_cloud: how many tokens of `text` the cloud put in.

        Raises:
            CloudError: the cloud failed, and nobody can do without it.
        """
        if self._verifier is None or self.degraded is not None:
            return None
        before = self._verifier.work
        try:
            run_on = self._run_on_tokens(text, draft, of_cloud)
            future = self._verifier.start(text, draft, run_on)
            if future is None:
                verdict = yield from self._verifier.verify(text, draft, run_on)
                verify_ms = self._verifier.work.step_ms - before.step_ms
            else:
                verdict, verify_ms = yield from self._fly(index, text, draft, future)
                verify_ms = max(verify_ms - _prefilled_ms(self._verifier.work) + _prefilled_ms(before), 0.0)
        except CloudError as error:
            self._give_up(error)
            return None
        self._run_on.verified(len(verdict.more), verify_ms)
        return Answer(verdict, verify_ms, self._verifier.work.encoder_passes > before.encoder_passes)

    def _fly(
        self, index: int, text: Sequence[int], draft: Draft, future: Future[Verdict]
    ) -> Turns[tuple[Verdict, float]]:
        """The verdict that is under way, and the cloud's milliseconds; the edge drafts ahead meanwhile."""
        self.flown = True
        flight = Flight(future)
        yield Sent(index, draft.ids)
        if self.drafts_ahead:
            supposed = (*text, *draft.ids)
            yield from draft_ahead(self._drafter, self._gate, self._options, supposed, flight, self._loop_end)
        if not flight.landed:
            yield Wait(future)
        verdict = future.result()
        return verdict, flight.ms if verdict.link is None else verdict.link.cloud_ms

    def _run_on_tokens(self, text: Sequence[int], draft: Draft, of_cloud: int) -> int:
        room = self._options.max_new_tokens - len(text) - 1
        if not draft.ids:
            return min((CLOUD_CHUNK if self._options.mode == "cloud" else ALONE) - 1, room)
        return self._run_on.tokens(len(text), of_cloud, room)

    def _give_up(self, error: CloudError) -> None:
        """Goes on without the cloud for the rest of the clip; raises `error` where that cannot or must not be."""
        if self._options.require_cloud or self._options.mode == "cloud":
            raise error
        self.degraded = error.message
        if self._options.mode == "lossless":
            self.degraded += "; from there on the text is the edge's own, and not lossless"


def _prefilled_ms(work: ModelWork) -> float:
    return work.encoder_ms + work.prefill_ms
