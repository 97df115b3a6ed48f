"""Verifying: the cloud scores a whole block in one forward."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

import torch

from specdec_cli.config.schema import AcceptanceConfig, ScoringConfig
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms, Verdict, accept_block, chosen, near_ties
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.lookup import Guesses
from specdec_cli.decoding.rows import Rows
from specdec_cli.decoding.scores import generator_for, likeliest
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.models.session import Session
from specdec_cli.types import ModelWork


class Verifier(Protocol):
    """Verifies the blocks of one clip, by a model of this process or one that is elsewhere. Calls block."""

    elsewhere: bool  # whether it works while this process waits, so that the edge can draft ahead
    rows: Rows | None  # of a model of this process

    @property
    def work(self) -> ModelWork:
        """What the verifying model has done for this clip."""

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The verdict on `draft` as the continuation of `text`. Two calls with the same arguments return the same.

        Without drafted tokens the cloud just generates. At most `run_on` tokens follow the verdict's own one, in
        `Verdict.more`. Raises CloudError where a cloud elsewhere did not answer, or with nonsense.
        """

    def prefill(self) -> None:
        """Reads the clip and the prompt ahead of need; raises as `verify` does."""

    def close(self) -> None:
        """The clip is done: a call under way ends soon, in a CloudError, and what is held for the clip can go."""


class LocalVerifier(Verifier):
    """Verifies blocks with a session of this process, and generates nothing past `most` tokens of text.

    Verdicts name the `top_n` likeliest tokens of each position that they decide.
    """

    elsewhere = False

    def __init__(
        self,
        session: Session,
        settings: ScoringConfig,
        rules: AcceptanceConfig,
        stop_ids: Collection[int],
        most: int | None = None,
        top_n: int = 0,
        synonyms: Synonyms = NO_SYNONYMS,
        guesses: Guesses | None = None,
    ) -> None:
        self.session, self.rows = session, Rows(session, settings, stop_ids, guesses)
        self._rules, self._most, self._top_n, self._synonyms = rules, most, top_n, synonyms
        self._stop_ids = frozenset(stop_ids)
        self._tolerance = tie_tolerance(session.model.dtype)

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @torch.inference_mode()
    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """Scores all m + 1 positions of a block in one forward, and applies the rule; then the cloud runs on."""
        before, blocked_s, started = self.session.work, self.rows.blocked_s, time.perf_counter()
        proposed, settings = [*text, *draft.ids], self.rows.pipeline.settings
        draws, rules, groups = draws_at(settings.seed, len(text)), self._rules, self._synonyms
        logits = self.rows.after(proposed, len(draft.ids) + 1, guesses=run_on > 0)
        accepted, token = accept_block(draft, logits, rules, draws, sampling=settings.sampling, synonyms=groups)
        decided, written = [logits[: accepted + 1]], [*proposed[: len(text) + accepted], token]
        self.rows.tail = proposed
        verified = len(written)
        longest = verified + run_on if self._most is None else min(verified + run_on, self._most)
        if not self._stop_ids.isdisjoint(written[len(text) :]):
            longest = verified
        while len(written) < longest and written[-1] not in self._stop_ids:
            decided.append(self.rows.after(written))
            written.append(chosen(decided[-1][0], draws, sampling=settings.sampling))
        logits = torch.cat(decided)
        ties, rows = near_ties(logits, self._tolerance), likeliest(logits, self._top_n)
        own_s = time.perf_counter() - started - (self.rows.blocked_s - blocked_s)
        done = self.session.work - before
        ms, prefilled = own_s * 1e3 + done.step_ms, done.encoder_passes > 0
        return Verdict(accepted, token, tuple(written[verified:]), ties, ms, prefilled, likeliest=rows or None)

    def prefill(self) -> None:
        self.session.prefill()

    def close(self) -> None:
        """Nothing is held elsewhere."""


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    return generator_for(seed, position.to_bytes(4, "big"))
