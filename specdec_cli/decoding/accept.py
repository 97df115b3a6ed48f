"""Acceptance rules: how much of a verified block is kept, and which token of the cloud's own follows.

| rule     | a drafted token is kept if                                        | lossless        |
|----------|-------------------------------------------------------------------|-----------------|
| greedy   | it is the cloud's likeliest                                       | yes             |
| sampling | u < p/q, u uniform, p and q its probability for cloud and edge     | in distribution |
| rank     | it is among the cloud's `rank` likeliest                          | no              |
| prob     | the cloud gives it a probability of at least `prob`               | no              |
| typical  | p > min(epsilon, delta * exp(-H)), H the cloud's entropy in nats   | no              |

Sources: sampling: Leviathan et al. 2023 and Chen et al. 2023 (speculative sampling); typical: Cai et al. 2024
(Medusa). The first rejected token is replaced by the cloud's choice there (the correction); a block kept whole is
followed by the cloud's choice after it (the bonus).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specdec_cli.config.schema import AcceptanceConfig
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.evidence import entropies
from specdec_cli.decoding.scores import draw


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the cloud finds of a block.

    Attributes:
        accepted: number of leading drafted tokens that are kept.
        token: the cloud's own token after them: the correction, or the bonus if all were kept.
        more: tokens that the cloud generated after that one.
        near_ties: verified positions whose two best scores the cloud's number format cannot tell apart; None: unknown.
        ms: the cloud's time, milliseconds, without its prefill and without the link.
        prefilled: whether the cloud read the clip on that occasion, so that `ms` is not a whole verification's.
        network_ms: time on the link, milliseconds; None where there is none, as for the next two.
        bytes_up, bytes_down: bodies of requests and answers as sent, repeats included.
    """

    accepted: int
    token: int
    more: tuple[int, ...] = ()
    near_ties: int | None = None
    ms: float = 0.0
    prefilled: bool = False
    network_ms: float | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None


def judge(
    draft: Draft, scores: torch.Tensor, rules: AcceptanceConfig, generator: torch.Generator, *, sampling: bool
) -> tuple[int, int]:
    """Applies the rule in force to a block of m tokens: (accepted, the cloud's own token).

    Args:
        draft: the block, with the edge's scores [m, vocab].
        scores: the cloud's processed scores [m + 1, vocab]; row i stands where drafted token i stands, the last
            one after the block.
        rules: the rule and its bounds.
        generator: of this verdict's draws.
        sampling: whether the cloud's own token is drawn.
    """
    if rules.in_force(sampling=sampling) == "sampling":
        return _speculative_sampling(draft, scores, generator)
    kept = _kept(draft.ids, scores[:-1], rules, sampling=sampling).tolist()
    accepted = kept.index(False) if False in kept else len(kept)
    return accepted, chosen(scores[accepted], generator, sampling=sampling)


def chosen(scores: torch.Tensor, generator: torch.Generator, *, sampling: bool) -> int:
    """The cloud's own choice from processed scores [vocab]: the likeliest token, or one that is drawn."""
    return draw(scores.softmax(dim=-1), generator) if sampling else int(scores.argmax())


def near_ties(scores: torch.Tensor, tolerance: float) -> int:
    """Rows of processed scores [m, vocab] whose two best lie within `tolerance` standard deviations (at least 1)."""
    best = scores.topk(2, dim=-1).values
    finite = scores.masked_fill(scores.isinf(), torch.nan)
    spread = (finite - finite.nanmean(dim=-1, keepdim=True)).square().nanmean(dim=-1).sqrt().clamp(min=1.0)
    return int((best[:, 0] - best[:, 1] <= tolerance * spread).sum())


def _kept(ids: Sequence[int], scores: torch.Tensor, rules: AcceptanceConfig, *, sampling: bool) -> torch.Tensor:
    """Which of the m drafted tokens pass on their own: bool [m]."""
    drafted = torch.tensor(ids, device=scores.device, dtype=torch.long)
    rule = rules.in_force(sampling=sampling)
    if rule == "greedy":
        return scores.argmax(dim=-1) == drafted
    own = scores.gather(1, drafted[:, None])
    if rule == "rank":
        return ((scores > own).sum(dim=-1) < rules.rank) & own[:, 0].isfinite()
    probabilities = scores.softmax(dim=-1)
    own = probabilities.gather(1, drafted[:, None])[:, 0]
    if rule == "prob":
        return own >= rules.prob
    ceiling = rules.typical_delta * torch.exp(-entropies(probabilities))
    return own > ceiling.clamp(max=rules.typical_epsilon)


def _speculative_sampling(draft: Draft, scores: torch.Tensor, generator: torch.Generator) -> tuple[int, int]:
    target = scores.softmax(dim=-1).cpu()
    proposal = draft.probabilities().cpu() if draft.ids else target
    for position, token in enumerate(draft.ids):
        p, q = target[position], proposal[position]
        # Equal in distribution to always drawing from p: keep with min(1, p/q), else draw from what q left of p.
        if float(torch.rand((), generator=generator)) * float(q[token]) < float(p[token]):
            continue
        residual = (p - q).clamp(min=0)
        # A rejection means p < q somewhere, hence p > q elsewhere; only rounding can leave nothing.
        return position, draw(residual if residual.sum() > 0 else p, generator)
    return len(draft.ids), draw(target[-1], generator)
