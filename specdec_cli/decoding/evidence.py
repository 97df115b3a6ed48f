"""The evidence on drafted tokens: what the drafting model's own distributions show of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from specdec_cli.types import Candidates

if TYPE_CHECKING:
    import torch

CANDIDATES: Final = 3  # likeliest tokens that are kept for each position


class TokenEvidence(NamedTuple):
    """One drafted token, after the logits processors."""

    id: int
    entropy: float  # of the distribution that it was chosen from, nats
    margin: float  # probability of the likeliest token minus that of the second
    logprob: float  # natural logarithm of the token's probability
    candidates: Candidates  # at most `CANDIDATES`
    class_entropy: float = 0.0  # of the same distribution over groups of tokens, nats; 0 where there are none
    least_entropy: float | None = None  # where only the likeliest tokens are known: `entropy` is then the largest

    @property
    def probability(self) -> float:
        return math.exp(self.logprob)


def entropies(probabilities: torch.Tensor) -> torch.Tensor:
    """Shannon entropy of each row, nats: [m, vocab] -> [m]. Impossible tokens (probability 0) count as 0."""
    import torch

    nats: torch.Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return nats


@dataclass(frozen=True, slots=True)
class Groups:
    """Tokens in groups, on the device of the probabilities that are summed over them."""

    index: torch.Tensor  # [vocab] number of each token's group
    count: int

    @classmethod
    def of(cls, groups: Mapping[int, int], vocab_size: int, device: torch.device | str = "cpu") -> Groups:
        """From token id -> number of its group; tokens without one are a group of their own, the last."""
        import torch

        rest = max(groups.values(), default=-1) + 1
        index = torch.full((vocab_size,), rest)
        if groups:
            index[torch.tensor(list(groups))] = torch.tensor(list(groups.values()))
        return cls(index.to(device), rest + 1)

    def summed(self, probabilities: torch.Tensor) -> torch.Tensor:
        """[m, vocab] summed over the tokens of each group: [m, groups]."""
        return probabilities.new_zeros(len(probabilities), self.count).index_add_(1, self.index, probabilities)


def evidence_of(scores: torch.Tensor, ids: Sequence[int], groups: Groups | None = None) -> list[TokenEvidence]:
    """The evidence on m drafted tokens, by the processed scores [m, vocab] that they were chosen by.

    `groups` are those of the gate class-entropy. That is near 0 where a model wavers between words for one class, and
    high where it wavers between classes.
    """
    import torch

    probabilities = scores.softmax(dim=-1)
    best, likeliest = probabilities.topk(min(CANDIDATES, probabilities.shape[-1]), dim=-1)
    nats = entropies(probabilities)
    class_nats = torch.zeros_like(nats) if groups is None else entropies(groups.summed(probabilities))
    # in one transfer: float32 holds ids below 2^24 exactly
    figures = torch.cat((nats[:, None], class_nats[:, None], best, likeliest.float()), dim=-1).tolist()
    found = []
    for row, (id_, (entropy, class_entropy, *rest)) in enumerate(zip(ids, figures, strict=True)):
        ps, tokens = rest[: len(rest) // 2], [int(token) for token in rest[len(rest) // 2 :]]
        # nearly always one of the candidates, whose probabilities have been fetched already
        own = ps[tokens.index(id_)] if id_ in tokens else float(probabilities[row, id_])
        candidates = tuple((token, p) for token, p in zip(tokens, ps, strict=True) if p > 0)
        margin = ps[0] - ps[1] if len(ps) > 1 else 1.0
        logprob = math.log(own) if own > 0 else -math.inf
        found.append(TokenEvidence(id_, entropy, margin, logprob, candidates, class_entropy))
    return found
