"""Verifying: the cloud scores a whole block in one forward, and may write on after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch

from specdec_cli.config.decoding_schema import AcceptanceRules
from specdec_cli.decoding.accept import Synonyms, accept_block, speculative_sampling
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.rows import RowFigures, named, tie_tolerance
from specdec_cli.decoding.scores import draw, generator_for, placed
from specdec_cli.models.session import Session
from specdec_cli.types import AcceptanceName, ModelWork


@dataclass(eq=False)
class LocalVerifier:
    """Verifies the blocks of one clip with a model of this process; see `Verifier`.

    A verdict names the `top_n` most likely tokens of each position that it decides. Nothing is generated past `most`
    tokens of text.
    """

    make_next_scores: Callable[[], NextScores]  # called when the cloud is first needed
    rules: AcceptanceRules
    most: int
    top_n: int = 0
    synonyms: Synonyms = field(default_factory=dict)
    is_remote: ClassVar[bool] = False

    @cached_property
    def next_scores(self) -> NextScores:
        """The cloud's scores, with a fresh session."""
        return self.make_next_scores()

    @property
    def session(self) -> Session:
        """The cloud's session."""
        return self.next_scores.session

    @property
    def work(self) -> ModelWork:
        return self.session.work if "next_scores" in vars(self) else ModelWork()

    @cached_property
    def _rule(self) -> AcceptanceName:
        return self.rules.in_force(sampling=self.next_scores.pipeline.settings.sampling)

    @torch.inference_mode()
    def verify(self, text_ids: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        started_ms, passes = self.next_scores.clock_ms, self.session.work.encoder_passes
        tolerance = tie_tolerance(self.session.model.dtype)
        proposed, draws = [*text_ids, *draft.ids], draws_at(self.next_scores.pipeline.settings.seed, len(text_ids))
        scores = self.next_scores.after(proposed, len(draft.ids) + 1, guessing=run_on > 0)
        self.next_scores.tail = proposed
        rows = self._rows(scores, draft.ids)
        if self._rule == "sampling":
            accepted, token = speculative_sampling(draft, scores, draws)
        else:
            accepted = accept_block(self.rules, self._rule, rows[:-1], self.synonyms)
            token = self._own(scores[accepted], rows[accepted], draws)
        decided = rows[: accepted + 1]  # no text needs the others
        written = [*proposed[: len(text_ids) + accepted], token]
        verified = len(written)
        longest = min(verified + run_on, self.most)
        if not self.next_scores.stop_ids.isdisjoint(written[len(text_ids) :]):
            longest = verified
        while len(written) < longest and written[-1] not in self.next_scores.stop_ids:
            scores = self.next_scores.after(written)
            decided += self._rows(scores, ())
            written.append(self._own(scores[0], decided[-1], draws))
        ended = accepted > 0 and proposed[len(text_ids) + accepted - 1] in self.next_scores.stop_ids
        self.next_scores.require_finite(decided[:accepted] if ended else decided)
        instead = self.next_scores.banned(len(text_ids), len(written))
        self.next_scores.drop_before(written)
        return Verdict(
            accepted,
            token,
            tuple(written[verified:]),
            near_ties=sum(row.ties(tolerance) for row in decided),
            ms=self.next_scores.clock_ms - started_ms,
            prefilled=self.session.work.encoder_passes > passes,
            likeliest=tuple(named(row.candidates[: self.top_n]) for row in decided) if self.top_n else None,
            instead=instead,
        )

    def prefill(self) -> None:
        """Encodes the clip and the prompt. Scores that are not finite fail here."""
        if not self.session.is_read:
            logits = self.session.logits(())  # not within `figures`: the session counts its own time
            self.next_scores.require_finite(self.next_scores.figures(logits, 0))

    def close(self) -> None:
        """Nothing runs between two calls."""

    def _rows(self, scores: torch.Tensor, drafted: Sequence[int]) -> list[RowFigures]:
        """The figures of rows [m + 1, vocab], each but the last with its drafted token."""
        needed = {"rank": self.rules.rank, "prob": 1}.get(self._rule, 0)
        listed = max(self.top_n, needed)
        ids = placed([*drafted, 0], scores.device) if drafted else None
        return self.next_scores.figures(scores, listed, ids=ids, spread=True, doubt=self._rule == "typical")

    def _own(self, scores: torch.Tensor, row: RowFigures, draws: torch.Generator) -> int:
        """The cloud's own token by its processed scores [vocab]: the most likely one, or one that is drawn."""
        if not self.next_scores.pipeline.settings.sampling:
            return row.id
        return int(draw(scores.softmax(dim=-1)[None], draws))


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    return generator_for(seed, position.to_bytes(4, "big"))
