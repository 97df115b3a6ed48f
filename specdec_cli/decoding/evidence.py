"""Evidence: what the drafting model's own distributions say of the tokens that it drafted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from specdec_cli.types import Candidates

CANDIDATES: Final = 3
"""Likeliest tokens that are kept for each position."""


@dataclass(frozen=True, slots=True)
class TokenEvidence:
    """One drafted token, after the logits processors.

    Attributes:
        id: the token.
        entropy: of the distribution that it was chosen from, nats.
        margin: probability of the likeliest token minus that of the second.
        logprob: natural logarithm of the drafted token's probability.
        candidates: the likeliest possible tokens, at most `CANDIDATES`.
    """

    id: int
    entropy: float
    margin: float
    logprob: float
    candidates: Candidates

    @property
    def probability(self) -> float:
        """Of the drafted token."""
        return math.exp(self.logprob)


def entropies(probabilities: torch.Tensor) -> torch.Tensor:
    """Shannon entropy of each row, nats: [m, vocab] -> [m]. Impossible tokens (probability 0) count as 0."""
    nats: torch.Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return nats


def evidence_of(scores: torch.Tensor, ids: Sequence[int]) -> list[TokenEvidence]:
    """The evidence on m drafted tokens.

    Args:
        scores: [m, vocab] processed scores, row i the one that ids[i] was chosen by.
        ids: the m tokens.
    """
    probabilities = scores.softmax(dim=-1)
    best, likeliest = probabilities.topk(min(CANDIDATES, probabilities.shape[-1]), dim=-1)
    rows = zip(ids, entropies(probabilities).tolist(), best.tolist(), likeliest.tolist(), strict=True)
    found = []
    for row, (id_, nats, ps, tokens) in enumerate(rows):
        # nearly always one of the candidates, whose probabilities have been fetched already
        own = ps[tokens.index(id_)] if id_ in tokens else float(probabilities[row, id_])
        possible = zip(tokens, ps, strict=True)
        candidates = tuple(possible) if ps[-1] > 0 else tuple(pair for pair in possible if pair[1] > 0)
        margin = ps[0] - ps[1] if len(ps) > 1 else 1.0
        found.append(TokenEvidence(id_, nats, margin, math.log(own) if own > 0 else -math.inf, candidates))
    return found
