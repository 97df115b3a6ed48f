"""The evidence on drafted tokens: what the drafting model's own distributions show of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from specdec_cli.decoding.pick import most_likely, not_finite, ranked
from specdec_cli.types import Candidates

if TYPE_CHECKING:
    import torch

_LARGE: Final = 1 << 15  # scores of a row; of 12,000 scores, five rows at once are faster than one by one
CANDIDATES: Final = 3  # most likely tokens that are kept for each position
_BITS: Final = math.log2(math.e)  # in a nat
_LEAST: Final = -1e4  # binary logarithm of an impossible token's weight: finite, so that times the weight, 0, it is 0


class TokenEvidence(NamedTuple):
    """One drafted token, after the logits processors."""

    id: int
    entropy: float  # of the distribution that it was chosen from, nats
    margin: float  # probability of the most likely token minus that of the second
    logprob: float  # natural logarithm of the token's probability
    candidates: Candidates  # the most likely tokens, at most `CANDIDATES`
    class_entropy: float = 0.0  # of the same distribution over groups of tokens, nats; 0 without groups
    least_entropy: float | None = None  # lower bound if a server names only the top tokens: `entropy` is an upper bound

    @property
    def probability(self) -> float:
        return math.exp(self.logprob)


def entropies(scores: torch.Tensor) -> torch.Tensor:
    """Shannon entropy of each row's distribution, nats: scores [m, vocab] -> [m]. Impossible tokens count as 0."""
    top, _ = most_likely(scores)
    return _entropies(scores, top[:, None])[-1][:, 0]


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of tokens, on the device of the scores that are summed over them. All other tokens are one more group."""

    ids: torch.Tensor  # int64 [n], the tokens of all groups
    member: torch.Tensor  # float32 [n, groups], 1 where a token is in a group

    @classmethod
    def of(cls, groups: Mapping[int, int], vocab_size: int, device: torch.device | str = "cpu") -> Groups:
        """From token id -> number of its group; ids from `vocab_size` on are left out."""
        import torch

        known = {id_: group for id_, group in groups.items() if id_ < vocab_size}
        member = torch.zeros(len(known), max(known.values(), default=-1) + 1)
        member[torch.arange(len(known)), torch.tensor(list(known.values()), dtype=torch.long)] = 1.0
        return cls(torch.tensor(list(known), dtype=torch.long, device=device), member.to(device))

    def entropies(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Entropy between the groups, nats: probabilities [m, n] of `ids`, one row a distribution -> [m]."""
        import torch

        summed = probabilities @ self.member
        rest = (1.0 - summed.sum(dim=-1, keepdim=True)).clamp(min=0.0)
        nats: torch.Tensor = torch.special.entr(torch.cat((summed, rest), dim=-1)).sum(dim=-1)
        return nats


def evidence_of(
    scores: torch.Tensor | Sequence[torch.Tensor],
    ids: Sequence[int] | torch.Tensor | None = None,
    groups: Groups | None = None,
    name: str | None = "the model",
) -> list[TokenEvidence]:
    """The evidence on m drafted tokens, in one fetch.

    Args:
        scores: the processed scores [m, vocab] that they were chosen by, or parts of some rows each.
        ids: of the tokens, or int64 [m] on the device, if the host has not read them yet; None: the most likely ones.
        groups: of the gate class-entropy, which is near 0 where a model wavers between words for one class, and high
            where it wavers between classes.
        name: of the model, for errors; None: no row is checked, and what is not finite is so in the evidence.

    Raises ScoresError if the scores of a row are not finite.
    """
    import torch

    parts = _parts([scores] if isinstance(scores, torch.Tensor) else scores)
    if ids is not None and not isinstance(ids, torch.Tensor):
        ids = torch.tensor(ids, device=parts[0].device)
    chosen = [None] * len(parts) if ids is None else torch.split(ids, [len(part) for part in parts])
    found = []
    figures = [_figures(part, own, groups) for part, own in zip(parts, chosen, strict=True)]
    for id_, entropy, logprob, *rest in torch.cat(figures).tolist():
        if name is not None and not math.isfinite(entropy):
            raise not_finite(name)
        between = rest.pop(0) if groups is not None else 0.0
        ps, tokens = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        candidates = tuple((int(token), p) for token, p in zip(tokens, ps, strict=True) if p > 0)
        margin = ps[0] - ps[1] if len(ps) > 1 else 1.0
        found.append(TokenEvidence(int(id_), entropy, margin, logprob, candidates, between))
    return found


def reads_each_row(device: torch.device, vocab_size: int) -> bool:
    """Whether evidence is computed row by row: a CPU's cache holds what one large row needs, but not several."""
    return device.type == "cpu" and vocab_size > _LARGE


def _parts(scores: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Scores [m, vocab] in the parts for which evidence is computed at a time."""
    import torch

    if reads_each_row(scores[0].device, scores[0].shape[-1]):
        return [row for part in scores for row in torch.split(part, 1)]
    return [scores[0] if len(scores) == 1 else torch.cat([*scores])]


def _figures(scores: torch.Tensor, ids: torch.Tensor | None, groups: Groups | None) -> torch.Tensor:
    """What `evidence_of` fetches of rows [m, vocab], as float32 [m, figures]."""
    import torch

    best, values, others = ranked(scores, CANDIDATES)
    chosen = (best if ids is None else ids)[:, None]
    weights, total, nats = _entropies(scores, top := values[:, :1])
    norm = total.log().add_(top)  # a score minus this is the logarithm of its probability
    columns = [chosen, nats, scores.gather(1, chosen) - norm]
    if groups is not None:
        columns.append(groups.entropies(weights[:, groups.ids] / total)[:, None])
    return torch.cat([*columns, (values - norm).exp_(), others], dim=-1)


def _entropies(scores: torch.Tensor, top: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The entropies of rows [m, vocab] whose best scores are `top` [m, 1].

    Returns the weights w = exp(score - best) [m, vocab], in proportion to the probabilities; their sums W [m, 1]; and
    the entropies H = log W - sum(w log w) / W [m, 1], nats. Neither term is negative.
    """
    # powers of two take a CPU a fifth of the time of exponentials
    bits = (scores - top).mul_(_BITS).clamp_(min=_LEAST)
    weights = bits.exp2()
    total = weights.sum(dim=-1, keepdim=True)
    mean = bits.mul_(weights).sum(dim=-1, keepdim=True) / total  # a matrix product rounds a thousandfold more
    return weights, total, total.log() - mean / _BITS
