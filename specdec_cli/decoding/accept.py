"""Acceptance rules: how much of a verified block is accepted, and which token of the cloud's own follows.

| rule     | a drafted token is accepted if                                    | lossless        |
|----------|-------------------------------------------------------------------|-----------------|
| greedy   | it is the cloud's most likely token                               | yes             |
| sampling | u < p/q, u uniform, p and q its probability for cloud and edge     | in distribution |
| rank     | it is among the cloud's `rank` most likely tokens                 | no              |
| prob     | the cloud gives it a probability of at least `prob`               | no              |
| typical  | p > min(epsilon, delta * exp(-H)), H the cloud's entropy in nats   | no              |
| class    | the cloud's choice says the same class of the lexicon              | no              |

Sources: sampling: Leviathan et al. 2023 and Chen et al. 2023 (speculative sampling); typical: Cai et al. 2024
(Medusa, with their epsilon of 0.09 and delta of 0.3). The cloud's choice replaces the first rejected token (the
correction), or follows a block that is accepted whole (the bonus).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import torch

from specdec_cli.config.decoding_schema import AcceptanceRules
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.rows import RowFigures
from specdec_cli.decoding.scores import draw, placed
from specdec_cli.types import AcceptanceName

Synonyms = Mapping[int, int]
"""Token id -> number of its group; the tokens of a group say the same. Most tokens are in no group."""

NO_SYNONYMS: Final[Synonyms] = {}
TYPICAL_EPSILON: Final = 0.09  # a probability
TYPICAL_DELTA: Final = 0.3


def says_same(token: int, own: int, groups: Synonyms) -> bool:
    """Whether a drafted token is the cloud's `own`, or is in the same group."""
    return token == own or (token in groups and groups[token] == groups.get(own))


def accepts(rules: AcceptanceRules, rule: AcceptanceName, row: RowFigures, synonyms: Synonyms) -> bool:
    """Whether a rule accepts the drafted token of a row of the cloud's; any rule but sampling.

    For `rank` the row names at least that many tokens, for `prob` one, and for `typical` it was read with its doubt.
    """
    if rule in ("greedy", "class"):
        return says_same(row.token, row.id, synonyms if rule == "class" else NO_SYNONYMS)
    assert row.logprob is not None
    p = math.exp(row.logprob)
    if rule == "rank":  # of equal ones all are accepted
        return p > 0 and (len(row.candidates) < rules.rank or p >= row.candidates[rules.rank - 1][1])
    if rule == "prob":
        return p >= rules.prob
    assert row.doubt is not None
    return p > min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-row.doubt.entropy))


def accept_block(rules: AcceptanceRules, rule: AcceptanceName, rows: Sequence[RowFigures], synonyms: Synonyms) -> int:
    """How many drafted tokens a rule accepts; `rows` are the cloud's, one for each."""
    rejected = (at for at, row in enumerate(rows) if not accepts(rules, rule, row, synonyms))
    return next(rejected, len(rows))


def speculative_sampling(draft: Draft, scores: torch.Tensor, generator: torch.Generator) -> tuple[int, int]:
    """Accepts a token with probability min(1, p/q); draws the first rejected one anew from max(p - q, 0), normalised.

    Returns how many drafted tokens are accepted, and the cloud's own token after them. `scores` are the cloud's
    processed scores [m + 1, vocab]: at each drafted token, and after the block. The distributions stay on their device:
    the host fetches two numbers for each drafted token, and one token.
    """
    target = scores.softmax(dim=-1)
    if draft.ids:
        proposal = draft.probabilities().to(target.device)
        drafted = placed(draft.ids, target.device)[:, None]
        chances = torch.cat((target[:-1].gather(1, drafted), proposal.gather(1, drafted)), dim=-1).tolist()
        for position, (p, q) in enumerate(chances):
            if float(torch.rand((), generator=generator)) * q < p:
                continue
            residual = (target[position] - proposal[position]).clamp(min=0)
            # A rejection means p < q somewhere, hence p > q elsewhere; only rounding can leave nothing.
            left = torch.where(residual.sum() > 0, residual, target[position])
            return position, int(draw(left[None], generator))
    return len(draft.ids), int(draw(target[-1:], generator))
