"""Verifying: the cloud scores a whole block in one forward."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

import torch

from specdec_cli.config.schema import AcceptanceConfig, ScoringConfig
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict, chosen, judge, near_ties
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.scores import Scores, generator_for, likeliest
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.models.session import Session
from specdec_cli.types import ModelWork


class Verifier(Protocol):
    """Judges the blocks of one clip: a model of this process, or one that is elsewhere. Calls block."""

    elsewhere: bool  # whether it works while this process waits, so that the edge can draft ahead

    @property
    def work(self) -> ModelWork:
        """What the verifying model has done for this clip."""

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """Judges `draft` as the continuation of `text`. Two calls with the same arguments return the same.

        Without drafted tokens the cloud just generates. At most `run_on` tokens follow the verdict's own one, in
        `Verdict.more`. Raises CloudError where a cloud elsewhere did not answer, or with nonsense.
        """

    def prefill(self) -> None:
        """Reads the clip and the prompt ahead of need; raises as `verify` does."""

    def close(self) -> None:
        """The clip is done: a call under way ends soon, in a CloudError, and what is held for the clip can go."""


class LocalVerifier(Verifier):
    """Judges blocks with a session of this process, and generates nothing past `most` tokens of text.

    Verdicts name the `kept` likeliest tokens of each position that they decide.
    """

    elsewhere = False

    def __init__(
        self,
        session: Session,
        settings: ScoringConfig,
        rules: AcceptanceConfig,
        stop_ids: Collection[int],
        most: int | None = None,
        kept: int = 0,
        synonyms: Synonyms = NO_SYNONYMS,
    ) -> None:
        self.session, self._rules, self._most, self._kept = session, rules, most, kept
        self._synonyms = synonyms
        self.scores = Scores(settings, session, stop_ids)
        self._stop_ids = frozenset(stop_ids)
        self._tolerance = tie_tolerance(session.model.dtype)

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @torch.inference_mode()
    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """Scores all m + 1 positions of a block in one forward, and applies the rule; run-on tokens take one each."""
        before, settings = self.session.work, self.scores.settings
        proposed = [*text, *draft.ids]
        logits = self.session.logits(proposed, len(draft.ids) + 1)
        started = time.perf_counter()
        draws = draws_at(settings.seed, len(text))
        scores = self.scores(proposed, logits)
        accepted, token = judge(draft, scores, self._rules, draws, sampling=settings.sampling, synonyms=self._synonyms)
        ties = near_ties(scores[: accepted + 1], self._tolerance)
        rows = likeliest(scores[: accepted + 1], self._kept)
        own_s = time.perf_counter() - started
        judged = len(text) + accepted + 1
        written = [*text, *draft.ids[:accepted], token]
        longest = judged + run_on if self._most is None else min(judged + run_on, self._most)
        if not self._stop_ids.isdisjoint(written[len(text) :]):
            longest = judged
        while len(written) < longest and written[-1] not in self._stop_ids:
            scores = self.scores(written, self.session.logits(written))
            written.append(chosen(scores[0], draws, sampling=settings.sampling))
            rows += likeliest(scores, self._kept)
        done = self.session.work - before
        ms, prefilled = own_s * 1e3 + done.step_ms, done.encoder_passes > 0
        return Verdict(accepted, token, tuple(written[judged:]), ties, ms, prefilled, likeliest=rows or None)

    def prefill(self) -> None:
        self.session.prefill()

    def close(self) -> None:
        """Nothing is held elsewhere."""


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    return generator_for(seed, position.to_bytes(4, "big"))
