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
followed by the cloud's choice behind it (the bonus).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specdec_cli.decoding.draft import Draft, draw
from specdec_cli.decoding.evidence import entropies
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.types import LinkUse


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cloud's answer to a block.

    Attributes:
        accepted: number of leading drafted tokens that are kept.
        token: the cloud's own token behind them: the correction, or the bonus if all were kept.
        more: tokens that the cloud generated behind that one, where it was asked to run on.
        link: what the exchange cost; None where cloud and edge share the process and no link is imitated.
    """

    accepted: int
    token: int
    more: tuple[int, ...] = ()
    link: LinkUse | None = None


def judge(draft: Draft, scores: torch.Tensor, options: DecodingOptions, generator: torch.Generator) -> Verdict:
    """Applies the rule in force to a block of m tokens.

    Args:
        draft: the block, with the edge's scores [m, vocab].
        scores: the cloud's processed scores [m + 1, vocab]; row i stands where drafted token i stands, the last
            one behind the block.
        options: the run's settings.
        generator: the clip's random generator.
    """
    if options.rule == "sampling":
        return _speculative_sampling(draft, scores, generator)
    kept = _kept(draft, scores[:-1], options).tolist()
    accepted = kept.index(False) if False in kept else len(kept)
    return Verdict(accepted, chosen(scores[accepted], options, generator))


def chosen(scores: torch.Tensor, options: DecodingOptions, generator: torch.Generator) -> int:
    """The cloud's own choice from processed scores [vocab]: the likeliest token, or one that is drawn."""
    return draw(scores.softmax(dim=-1), generator) if options.sampling else int(scores.argmax())


def _kept(draft: Draft, scores: torch.Tensor, options: DecodingOptions) -> torch.Tensor:
    """Which of the m drafted tokens pass on their own: bool [m]."""
    ids = torch.tensor(draft.ids, device=scores.device, dtype=torch.long)
    if options.rule == "greedy":
        return scores.argmax(dim=-1) == ids
    own = scores.gather(1, ids[:, None])
    if options.rule == "rank":
        return ((scores > own).sum(dim=-1) < options.rank) & own[:, 0].isfinite()
    probabilities = scores.softmax(dim=-1)
    own = probabilities.gather(1, ids[:, None])[:, 0]
    if options.rule == "prob":
        return own >= options.prob
    ceiling = options.typical_delta * torch.exp(-entropies(probabilities))
    return own > ceiling.clamp(max=options.typical_epsilon)


def _speculative_sampling(draft: Draft, scores: torch.Tensor, generator: torch.Generator) -> Verdict:
    target = scores.softmax(dim=-1).cpu()
    proposal = draft.probabilities().cpu()
    for position, token in enumerate(draft.ids):
        p, q = target[position], proposal[position]
        # Equal in distribution to always drawing from p: keep with min(1, p/q), else draw from what q left of p.
        if float(torch.rand((), generator=generator)) * float(q[token]) < float(p[token]):
            continue
        residual = (p - q).clamp(min=0)
        # A rejection means p < q somewhere, hence p > q elsewhere; only rounding can leave nothing.
        return Verdict(position, draw(residual if residual.sum() > 0 else p, generator))
    return Verdict(len(draft.ids), draw(target[-1], generator))
