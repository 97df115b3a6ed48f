"""Acceptance rules: how much of a verified block is accepted, and which token of the cloud's own follows.

| rule     | a drafted token is accepted if                                    | lossless        |
|----------|-------------------------------------------------------------------|-----------------|
| greedy   | it is the cloud's likeliest                                       | yes             |
| sampling | u < p/q, u uniform, p and q its probability for cloud and edge     | in distribution |
| rank     | it is among the cloud's `rank` likeliest                          | no              |
| prob     | the cloud gives it a probability of at least `prob`               | no              |
| typical  | p > min(epsilon, delta * exp(-H)), H the cloud's entropy in nats   | no              |
| class    | the cloud's choice says the same class of the lexicon              | no              |

Sources: sampling: Leviathan et al. 2023 and Chen et al. 2023 (speculative sampling); typical: Cai et al. 2024
(Medusa, with their epsilon of 0.09 and delta of 0.3). The first rejected token is replaced by the cloud's choice there
(the correction); a block accepted whole is followed by the cloud's choice after it (the bonus).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from specdec_cli.config.schema import AcceptanceConfig
from specdec_cli.decoding.evidence import entropies
from specdec_cli.types import AcceptanceName

if TYPE_CHECKING:
    import torch

    from specdec_cli.decoding.block import Draft

Synonyms = Mapping[int, int]
"""Token id -> number of a group whose tokens say the same; most tokens are in none."""

NO_SYNONYMS: Final[Synonyms] = {}
TYPICAL_EPSILON: Final = 0.09  # a probability
TYPICAL_DELTA: Final = 0.3


def accept_block(
    draft: Draft,
    scores: torch.Tensor,
    rules: AcceptanceConfig,
    generator: torch.Generator,
    *,
    sampling: bool,
    synonyms: Synonyms = NO_SYNONYMS,
) -> tuple[int, int]:
    """Applies the rule in force to a block of m tokens: (accepted, the cloud's own token).

    `scores` are the cloud's, processed, [m + 1, vocab]: at each drafted token, and after the block. `sampling`: its own
    token is drawn.
    """
    rule = rules.in_force(sampling=sampling)
    if rule == "sampling":
        return _speculative_sampling(draft, scores, generator)
    passes = _passing(draft, scores[:-1], rules, rule, synonyms) if draft.ids else []
    accepted = passes.index(False) if False in passes else len(passes)
    return accepted, pick_token(scores[accepted], generator, sampling=sampling)


def pick_token(scores: torch.Tensor, generator: torch.Generator, *, sampling: bool) -> int:
    """A model's own choice from processed scores [vocab]: the likeliest token, or one that is drawn."""
    if not sampling:
        return int(scores.argmax())
    from specdec_cli.decoding.scores import draw

    return draw(scores.softmax(dim=-1), generator)


def near_ties(scores: torch.Tensor, tolerance: float) -> int:
    """Rows of processed scores [m, vocab] whose two best lie within `tolerance` standard deviations (at least 1)."""
    best = scores.topk(2, dim=-1).values
    finite = scores.masked_fill(scores.isinf(), float("nan"))
    spread = (finite - finite.nanmean(dim=-1, keepdim=True)).square().nanmean(dim=-1).sqrt().clamp(min=1.0)
    return int((best[:, 0] - best[:, 1] <= tolerance * spread).sum())


def _passing(
    draft: Draft, scores: torch.Tensor, rules: AcceptanceConfig, rule: AcceptanceName, synonyms: Synonyms
) -> list[bool]:
    """Which of the m >= 1 drafted tokens pass, each by itself, by the cloud's scores [m, vocab]."""
    import torch

    likeliest = scores.argmax(dim=-1).tolist()
    if rule in ("greedy", "class"):
        groups = synonyms if rule == "class" else NO_SYNONYMS
        return [
            token == own or (token in groups and groups[token] == groups.get(own))
            for token, own in zip(draft.ids, likeliest, strict=True)
        ]
    drafted = torch.tensor(draft.ids, device=scores.device)[:, None]
    if rule == "rank":
        own = scores.gather(1, drafted)
        passes = ((scores > own).sum(dim=-1) < rules.rank) & own[:, 0].isfinite()
    else:
        probabilities = scores.softmax(dim=-1)
        own = probabilities.gather(1, drafted)[:, 0]
        if rule == "prob":
            passes = own >= rules.prob
        else:
            assert rule == "typical"
            least = TYPICAL_DELTA * torch.exp(-entropies(probabilities))
            passes = own > least.clamp(max=TYPICAL_EPSILON)
    found: list[bool] = passes.tolist()
    return found


def _speculative_sampling(draft: Draft, scores: torch.Tensor, generator: torch.Generator) -> tuple[int, int]:
    import torch

    from specdec_cli.decoding.scores import draw

    target = scores.softmax(dim=-1).cpu()
    proposal = draft.probabilities().cpu() if draft.ids else target
    for position, token in enumerate(draft.ids):
        p, q = target[position], proposal[position]
        # Equal in distribution to always drawing from p: accept with min(1, p/q), else draw from what q left of p.
        if float(torch.rand((), generator=generator)) * float(q[token]) < float(p[token]):
            continue
        residual = (p - q).clamp(min=0)
        # A rejection means p < q somewhere, hence p > q elsewhere; only rounding can leave nothing.
        return position, draw(residual if residual.sum() > 0 else p, generator)
    return len(draft.ids), draw(target[-1], generator)
