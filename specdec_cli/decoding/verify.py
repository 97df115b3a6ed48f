"""Verifying: the cloud scores a whole block in one forward."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

import torch

from specdec_cli.decoding.acceptance import Verdict, chosen, judge
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.models.session import Session, Steps
from specdec_cli.types import ModelWork


class Verifier(Protocol):
    """Whoever can judge a block: a model of this process, which needs forwards, or one behind a link."""

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        """Judges `draft` as the continuation of `text`. Asking twice gives the same answer.

        Args:
            text: the committed token ids.
            draft: a block of m >= 0 tokens; with none the cloud just generates.
            run_on: most tokens to generate behind the verdict's own one, into `Verdict.more`; fewer where one of them
                ends the text.

        Raises:
            CloudError: a cloud elsewhere did not answer, or with nonsense; the same from the future of `start`.
        """

    def start(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict] | None:
        """Begins to judge elsewhere and returns at once; None if it takes this process's forwards (`verify`)."""

    def rollback(self, text: Sequence[int]) -> None:
        """Makes sure that nothing but `text` is remembered; ends, or waits for, what is still under way."""

    def prefill(self) -> Steps[None]:
        """Reads the clip and the prompt ahead of need."""

    def start_prefill(self) -> Future[None] | None:
        """Begins to read them elsewhere and returns at once; None if that takes this process's forwards."""

    @property
    def work(self) -> ModelWork:
        """What the verifying model has done for this clip."""


class SessionVerifier:
    """Judges blocks with a session of this process.

    Args:
        session: the clip on the verifying model.
        processors: of that model.
        options: the run's settings; they hold the acceptance rule.
        generator: the clip's random generator; its seed and the place in the text give the draws of a verdict, so that
            asking twice gives the same answer, here or behind a link.
        stop_ids: nothing is generated behind any of these.
    """

    def __init__(
        self,
        session: Session,
        processors: ScoreProcessors,
        options: DecodingOptions,
        generator: torch.Generator,
        stop_ids: Collection[int],
    ) -> None:
        self.session = session
        self._processors = processors
        self._options = options
        self._generator = generator
        self._stop_ids = frozenset(stop_ids)

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        """Scores all m + 1 positions of a block of m tokens in one forward and applies the acceptance rule.

        Each run-on token takes one more forward.
        """
        proposed = (*text, *draft.ids)
        logits = yield self.session.ask(proposed, len(draft.ids) + 1)
        draws = draws_at(self._generator.initial_seed(), len(text))
        verdict = judge(draft, self._processors(proposed, logits), self._options, draws)
        if run_on == 0:
            return verdict
        written = [*text, *draft.ids[: verdict.accepted], verdict.token]
        more = yield from self._run_on(written, run_on, draws)
        return replace(verdict, more=more)

    def _run_on(self, text: list[int], most: int, draws: torch.Generator) -> Steps[tuple[int, ...]]:
        """Up to `most` tokens of the cloud's own behind `text`; nothing behind one that ends it."""
        start = len(text)
        self.session.rollback(text)
        while len(text) - start < most and text[-1] not in self._stop_ids:
            logits = yield self.session.ask(text, 1)
            text.append(chosen(self._processors(text, logits)[0], self._options, draws))
        return tuple(text[start:])

    def start(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict] | None:  # noqa: ARG002
        """None: the session's forwards are this process's."""
        return None

    def rollback(self, text: Sequence[int]) -> None:
        """Makes sure that the session's cache holds a prefix of `text`."""
        self.session.rollback(text)

    def prefill(self) -> Steps[None]:
        """Reads the clip and the prompt ahead of need."""
        wanted = self.session.ask_prefill()
        if wanted is not None:
            yield wanted

    def start_prefill(self) -> Future[None] | None:
        """None: the session's forwards are this process's."""
        return None

    @property
    def work(self) -> ModelWork:
        """What the session's model has done for this clip."""
        return self.session.work


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    digest = hashlib.blake2b(position.to_bytes(4, "big"), digest_size=8, key=seed.to_bytes(8, "big"))
    return torch.Generator().manual_seed(int.from_bytes(digest.digest(), "big") >> 1)
