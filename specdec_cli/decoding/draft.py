"""Drafting: one model proposes a block of tokens, one forward each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from specdec_cli.decoding.lookahead import Flight, Lookahead
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.models.session import Session, Steps
from specdec_cli.types import ModelWork

Stop = Callable[[torch.Tensor, int], bool]
"""Asked after each drafted token, with the scores [1, vocab] that it was chosen by: does the block end with it?"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens: at least one, but where a cloud elsewhere is to generate without a draft.

    Attributes:
        ids: the tokens.
        scores: [m, vocab] processed scores that each was chosen by.
        hidden_ms: time that drafting them had taken while an earlier block was being verified, milliseconds.
    """

    ids: tuple[int, ...]
    scores: torch.Tensor
    hidden_ms: float = 0.0

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        return self.scores.softmax(dim=-1)


class Drafts(Protocol):
    """Whoever proposes blocks to the engine."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a text, and a block."""

    def propose(self, text: Sequence[int], k: int, stop: Stop | None = None) -> Steps[Draft]:
        """Up to `k` tokens that continue `text`; fewer only if one of them ends it, or `stop` says so."""

    def break_out(self, text: Sequence[int], k: int, top_k: int) -> Steps[Draft]:
        """Like `propose`, but every token is drawn from the `top_k` likeliest: a way out of a loop."""

    def draft_ahead(
        self, text: Sequence[int], k: int, flight: Flight, stop: Stop | None = None, *, guess: bool = False
    ) -> Steps[Draft | None]:
        """Like `propose`, always by the likeliest token, for later use; None if the flight landed on the way."""

    def rollback(self, text: Sequence[int], *, keep_ahead: bool = False) -> int:
        """Forgets all but `text`, and what was drafted ahead behind it; returns how many tokens that makes useless."""

    @property
    def work(self) -> ModelWork:
        """What the drafting model has done for this clip."""


class Drafter:
    """Proposes tokens from one model's session, stopping at every forward that it needs.

    Args:
        session: the clip on the drafting model.
        processors: of that model.
        stop_ids: a block ends with any of these, since nothing after it could be kept.
        generator: the clip's random generator, on the CPU.
        sampling: draw tokens instead of taking the likeliest.
    """

    def __init__(
        self,
        session: Session,
        processors: ScoreProcessors,
        stop_ids: Collection[int],
        generator: torch.Generator,
        *,
        sampling: bool,
    ) -> None:
        self.session = session
        self._processors = processors
        self.stop_ids = frozenset(stop_ids)
        self._generator = generator
        self._sampling = sampling
        self._ahead = Lookahead()

    @property
    def work(self) -> ModelWork:
        """What the session's model has done for this clip."""
        return self.session.work

    def propose(self, text: Sequence[int], k: int, stop: Stop | None = None) -> Steps[Draft]:
        """Up to `k` tokens that continue `text`; fewer only if one of them ends it, or `stop` says so."""
        return (yield from self._propose(text, k, None, stop))

    def break_out(self, text: Sequence[int], k: int, top_k: int) -> Steps[Draft]:
        """Like `propose`, but every token is drawn from the `top_k` likeliest: a way out of a loop."""
        self.session.rollback(text)
        return (yield from self._propose(text, k, top_k, None))

    def draft_ahead(
        self, text: Sequence[int], k: int, flight: Flight, stop: Stop | None = None, *, guess: bool = False
    ) -> Steps[Draft | None]:
        """Like `propose`, always by the likeliest token, for later use; None if the flight landed on the way.

        Args:
            text: what is supposed to be the text: the committed one, the block under way, and so on.
            k, stop: as in `propose`.
            flight: the verification under way.
            guess: the token is to guess what the cloud will say, and is no draft.
        """
        ids: list[int] = []
        rows: list[torch.Tensor] = []
        while len(ids) < k and not (ids and ids[-1] in self.stop_ids):
            so_far = (*text, *ids)
            scores = self._ahead.at(so_far)
            if scores is None:
                if flight.landed:
                    return None
                scores = yield from self._step_ahead(so_far, flight, guess=guess)
            rows.append(scores)
            ids.append(int(scores.argmax()))
            if stop is not None and stop(scores, ids[-1]):
                break
        return Draft(tuple(ids), torch.cat(rows))

    def rollback(self, text: Sequence[int], *, keep_ahead: bool = False) -> int:
        """Makes sure that the session's cache holds a prefix of `text`, or of what was drafted ahead behind it.

        Args:
            text: the committed text.
            keep_ahead: keep what was drafted ahead, as far as it continues `text`.

        Returns:
            How many tokens drafted ahead are useless now.
        """
        useless = self._ahead.keep(text)
        if not keep_ahead:
            useless += self._ahead.keep(self._ahead.chain)
        self.session.rollback(self._ahead.chain or text)
        return useless

    def _propose(self, text: Sequence[int], k: int, top_k: int | None, stop: Stop | None) -> Steps[Draft]:
        ids: list[int] = []
        rows: list[torch.Tensor] = []
        hidden_ms = 0.0
        while len(ids) < k and not (ids and ids[-1] in self.stop_ids):
            so_far = (*text, *ids)
            known = self._ahead.use(so_far) if self._ahead else None
            if known is None:
                scores = yield from self._scores(so_far)
            else:
                scores, step_ms = known
                hidden_ms += step_ms
            if top_k is not None:
                floor = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]
                scores = scores.masked_fill(scores < floor, -torch.inf)
            rows.append(scores)
            if self._sampling or top_k is not None:
                ids.append(draw(scores[0].softmax(dim=-1), self._generator))
            else:
                ids.append(int(scores.argmax().item()))
            if stop is not None and stop(scores, ids[-1]):
                break
        if not rows:
            return Draft((), torch.empty(0, self.session.vocab_size))
        return Draft(tuple(ids), torch.cat(rows) if len(rows) > 1 else rows[0], hidden_ms)

    def _scores(self, text: Sequence[int]) -> Steps[torch.Tensor]:
        """Processed scores [1, vocab] behind `text`, by a forward."""
        if self._ahead:
            self.session.rollback(text)  # the text may have left the chain that is cached
        logits = yield self.session.ask(text, 1)
        return self._processors(text, logits)

    def _step_ahead(self, text: Sequence[int], flight: Flight, *, guess: bool) -> Steps[torch.Tensor]:
        before = self.session.work.step_ms
        scores = yield from self._scores(text)
        hidden_ms = max(self.session.work.step_ms - before - flight.overdue_ms, 0.0)
        self._ahead.add(text, scores, int(scores.argmax()), hidden_ms, guess=guess)
        return scores


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> int:
    """One token id from a distribution [vocab].

    Draws happen on the CPU whatever the model's device, so that a seed gives one text everywhere.
    """
    return int(torch.multinomial(probabilities.float().cpu(), 1, generator=generator))
