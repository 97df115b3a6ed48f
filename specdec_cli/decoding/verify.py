"""Verifying: the cloud scores a whole block in one forward, and may write on after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from specdec_cli.config.decoding_schema import AcceptanceRules
from specdec_cli.decoding.accept import Synonyms, accept_block, passing, speculative_sampling
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.pick import ScoreReading, choices
from specdec_cli.decoding.scores import draw, generator_for
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.types import ModelWork


@dataclass(eq=False)
class LocalVerifier:
    """Verifies the blocks of one clip with a model of this process; `RemoteVerifier` does the same with a remote one.

    A verdict names the `top_n` most likely tokens of each position that it decides. Nothing is generated past `most`
    tokens of text.
    """

    scores: NextScores
    rules: AcceptanceRules
    most: int
    top_n: int = 0
    synonyms: Synonyms = field(default_factory=dict)
    is_remote: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        self.session, self._tolerance = self.scores.session, tie_tolerance(self.scores.session.model.dtype)

    @property
    def work(self) -> ModelWork:
        """What the model has done for this clip."""
        return self.session.work

    @torch.inference_mode()
    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        """The verdict on `draft` after `text`: one forward scores m + 1 positions, then the rule decides.

        After its own token the cloud generates at most `run_on` more, in `Verdict.run_on`. Without drafted tokens it
        only generates. Two calls with the same arguments return the same verdict but for times.
        """
        started_ms, passes = self.scores.clock_ms, self.session.work.encoder_passes
        proposed, settings = [*text, *draft.ids], self.scores.pipeline.settings
        rule, draws = self.rules.in_force(sampling=settings.sampling), draws_at(settings.seed, len(text))
        scores = self.scores.after(proposed, len(draft.ids) + 1, guesses=run_on > 0)
        self.scores.tail = proposed
        decided = self.scores.readings(scores, passing(draft, scores, self.rules, rule), self.top_n)
        if rule == "sampling":
            accepted, token = speculative_sampling(draft, scores, draws)
        else:
            accepted = accept_block(draft, decided, rule, self.synonyms)
            token = self._own(scores[accepted], decided[accepted], draws)
        del decided[accepted + 1 :]  # no text needs these rows
        written = [*proposed[: len(text) + accepted], token]
        verified = len(written)
        longest = min(verified + run_on, self.most)
        if not self.scores.stop_ids.isdisjoint(written[len(text) :]):
            longest = verified
        while len(written) < longest and written[-1] not in self.scores.stop_ids:
            scores = self.scores.after(written)
            decided += self.scores.readings(scores, None, self.top_n)
            written.append(self._own(scores[0], decided[-1], draws))
        instead = self.scores.banned(len(text), len(written))
        self.scores.drop_before(written)
        ended = accepted > 0 and proposed[len(text) + accepted - 1] in self.scores.stop_ids
        if not all(math.isfinite(row.best) for row in (decided[:accepted] if ended else decided)):
            raise self.scores.not_finite()
        ties = sum(row.ties(self._tolerance) for row in decided)
        ms, prefilled = self.scores.clock_ms - started_ms, self.session.work.encoder_passes > passes
        likeliest = tuple(row.candidates for row in decided) if self.top_n else None
        run_on_ids = tuple(written[verified:])
        return Verdict(accepted, token, run_on_ids, ties, ms, prefilled, likeliest=likeliest, instead=instead)

    def _own(self, scores: torch.Tensor, row: ScoreReading, draws: torch.Generator) -> int:
        """The cloud's own token by its processed scores [vocab]: the most likely one, or one that is drawn."""
        if not self.scores.pipeline.settings.sampling:
            return row.id
        return int(draw(scores.softmax(dim=-1)[None], draws))

    def prefill(self) -> None:
        """Reads the clip and the prompt ahead of need. Scores that are not finite fail here."""
        if not self.session.is_read:
            logits = self.session.logits(())  # not within `waiting`: the session counts its own time
            with self.scores.waiting():
                choices(logits, self.session.model.name)


def draws_at(seed: int, position: int) -> torch.Generator:
    """The random generator of a verdict about a block that begins at token `position` of the text."""
    return generator_for(seed, position.to_bytes(4, "big"))
