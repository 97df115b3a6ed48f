"""Verifying: the cloud scores a whole block in one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from specdec_cli.config.schema import AcceptanceConfig
from specdec_cli.decoding.accept import Synonyms, accept_block, near_ties, pick_token
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.rows import Rows
from specdec_cli.decoding.scores import generator_for, likeliest
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.types import ModelWork


@dataclass(eq=False)
class LocalVerifier:
    """Verifies the blocks of one clip with a model of this process, and generates nothing past `most` tokens of text.

    Verdicts name the `top_n` likeliest tokens of each position that they decide. `RemoteVerifier` does the same with a
    model that is elsewhere, and raises CloudError where that does not answer, or with nonsense. Calls block.
    """

    rows: Rows
    rules: AcceptanceConfig
    most: int | None = None
    top_n: int = 0
    synonyms: Synonyms = field(default_factory=dict)
    is_remote: ClassVar[Literal[False]] = False  # else it works while this process waits: the edge can draft ahead

    def __post_init__(self) -> None:
        self.session, self._tolerance = self.rows.session, tie_tolerance(self.rows.session.model.dtype)

    @property
    def work(self) -> ModelWork:
        """What the model has done for this clip."""
        return self.session.work

    @torch.inference_mode()
    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The verdict on `draft` as the continuation of `text`: m + 1 positions in one forward, and the rule.

        At most `run_on` tokens that the cloud generates follow the verdict's own one, in `Verdict.more`; without
        drafted tokens it just generates. Two calls with the same arguments return the same.
        """
        started_ms, passes = self.rows.clock_ms, self.session.work.encoder_passes
        proposed, settings = [*text, *draft.ids], self.rows.pipeline.settings
        draws, rules, groups = draws_at(settings.seed, len(text)), self.rules, self.synonyms
        logits = self.rows.after(proposed, len(draft.ids) + 1, guesses=run_on > 0)
        accepted, token = accept_block(draft, logits, rules, draws, sampling=settings.sampling, synonyms=groups)
        decided, written = [logits[: accepted + 1]], [*proposed[: len(text) + accepted], token]
        self.rows.tail = proposed
        verified = len(written)
        longest = verified + run_on if self.most is None else min(verified + run_on, self.most)
        if not self.rows.stop_ids.isdisjoint(written[len(text) :]):
            longest = verified
        while len(written) < longest and written[-1] not in self.rows.stop_ids:
            decided.append(self.rows.after(written))
            written.append(pick_token(decided[-1][0], draws, sampling=settings.sampling))
        logits = torch.cat(decided)
        self.rows.drop_before(written)
        ties, rows = near_ties(logits, self._tolerance), likeliest(logits, self.top_n)
        ms, prefilled = self.rows.clock_ms - started_ms, self.session.work.encoder_passes > passes
        return Verdict(accepted, token, tuple(written[verified:]), ties, ms, prefilled, likeliest=rows or None)

    def prefill(self) -> None:
        """Reads the clip and the prompt ahead of need."""
        self.session.prefill()

    def close(self) -> None:
        """Nothing is held elsewhere; a call under way at a cloud elsewhere ends soon, in a CloudError."""


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    return generator_for(seed, position.to_bytes(4, "big"))
