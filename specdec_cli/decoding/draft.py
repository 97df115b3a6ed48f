"""Drafting: one model proposes a block of tokens, one forward each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.models.session import Session, Steps

Stop = Callable[[torch.Tensor, int], bool]
"""Asked after each drafted token, with the scores [1, vocab] that it was chosen by: does the block end with it?"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m >= 1 tokens.

    Attributes:
        ids: the tokens.
        scores: [m, vocab] processed scores that each was chosen by.
    """

    ids: tuple[int, ...]
    scores: torch.Tensor

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        return self.scores.softmax(dim=-1)


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
        self._stop_ids = frozenset(stop_ids)
        self._generator = generator
        self._sampling = sampling

    def propose(self, text: Sequence[int], k: int, stop: Stop | None = None) -> Steps[Draft]:
        """Up to `k` tokens that continue `text`; fewer only if one of them ends it, or `stop` says so."""
        return (yield from self._propose(text, k, None, stop))

    def break_out(self, text: Sequence[int], k: int, top_k: int) -> Steps[Draft]:
        """Like `propose`, but every token is drawn from the `top_k` likeliest: a way out of a loop."""
        self.session.rollback(text)
        return (yield from self._propose(text, k, top_k, None))

    def _propose(self, text: Sequence[int], k: int, top_k: int | None, stop: Stop | None) -> Steps[Draft]:
        ids: list[int] = []
        rows: list[torch.Tensor] = []
        while len(ids) < k and not (ids and ids[-1] in self._stop_ids):
            so_far = (*text, *ids)
            logits = yield self.session.ask(so_far, 1)
            scores = self._processors(so_far, logits)
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
        return Draft(tuple(ids), torch.cat(rows) if len(rows) > 1 else rows[0])


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> int:
    """One token id from a distribution [vocab].

    Draws happen on the CPU whatever the model's device, so that a seed gives one text everywhere.
    """
    return int(torch.multinomial(probabilities.float().cpu(), 1, generator=generator))
