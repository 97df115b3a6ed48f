"""The figures of rows of processed scores: one reading of a forward, computed on its device and fetched with one copy.

A fetch waits for the device, so one fetch takes everything that the host will read of a forward. Figures are fetched as
float32, which holds token ids below 2^24 exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch

from specdec_cli.errors import ScoresError
from specdec_cli.types import LEAST_PROBABILITY, Candidates

CANDIDATES: Final = 3  # most likely tokens that evidence names for each position
_SEARCHED: Final = 8192  # vocabulary up to which the best scores are searched for directly
_WIDTH: Final = 128  # scores of a strip: in a larger vocabulary only the strips with the best maxima are searched
_SAMPLED: Final = 4096  # least scores of a row from which its spread is computed
_LARGE: Final = 1 << 15  # scores of a row; of 12,000 scores, five rows at once are faster than one by one
_BITS: Final = math.log2(math.e)  # in a nat
_TIE: Final = {torch.float32: 2e-4, torch.float16: 0.01, torch.bfloat16: 0.08}
_LEAST: Final = -1e4  # binary logarithm of an impossible token's weight: finite, so that times the weight, 0, it is 0


class Doubt(NamedTuple):
    """How uncertain a distribution is, nats."""

    entropy: float
    class_entropy: float  # of the same distribution over groups of tokens; 0 without groups


class RowFigures(NamedTuple):
    """One row: the distribution of the next token."""

    id: int  # the most likely token, the first of equal ones
    best: float  # its score; not finite: no token may be chosen by this row
    token: int  # the token of interest, such as the drafted one; by default the most likely
    logprob: float | None  # natural logarithm of its probability; None: not computed
    candidates: Candidates  # the most likely tokens, best first, with their probabilities
    gap: float  # the best score minus the second; infinite if no other token is possible or read
    spread: float | None  # standard deviation of the possible tokens' scores; None: not computed
    doubt: Doubt | None  # None: not computed

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.best)

    def require_finite(self, name: str) -> None:
        """Raises ScoresError, which names the model `name`, if the row is not finite.

        Scores that are NaN or infinite would choose tokens in silence.
        """
        if not self.is_finite:
            raise ScoresError(
                f"the logits of {name} are not finite",
                hint="If decoding.no_repeat_ngram is set, it may have banned all tokens. Otherwise: float16 overflows "
                "in many models, so use bfloat16 or float32, or download the checkpoint again.",
            )

    def ties(self, tolerance: float) -> bool:
        """Whether the two best scores are a near tie: within `tolerance` times the spread (at least 1)."""
        return self.gap <= tolerance * max(self.spread or 0.0, 1.0)


def tie_tolerance(dtype: torch.dtype) -> float:
    """The difference below which two scores are a near tie, as a share of their row's standard deviation.

    Kernels of different shapes round differently, so two scores that are closer may swap between two runs.
    """
    return _TIE.get(dtype, _TIE[torch.bfloat16])


class TokenEvidence(NamedTuple):
    """What the drafting model's own distribution shows of one drafted token, after the logits processors."""

    id: int
    entropy: float  # of the distribution that it was chosen from, nats
    margin: float  # probability of the most likely token minus that of the second
    logprob: float  # natural logarithm of the token's probability
    candidates: Candidates  # the most likely tokens, at most `CANDIDATES`
    class_entropy: float = 0.0  # of the same distribution over groups of tokens, nats; 0 without groups
    least_entropy: float | None = None  # lower bound if a server names only the top tokens: `entropy` is an upper bound

    @classmethod
    def of(cls, row: RowFigures) -> TokenEvidence:
        """The evidence on the token of a row, which was read with its doubt."""
        assert row.doubt is not None  # the caller reads both
        assert row.logprob is not None
        ps = [p for _, p in row.candidates[:2]]
        margin = ps[0] - ps[1] if len(ps) > 1 else 1.0
        named = row.candidates[:CANDIDATES]
        return cls(row.token, row.doubt.entropy, margin, row.logprob, named, row.doubt.class_entropy)

    @property
    def probability(self) -> float:
        return math.exp(self.logprob)


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of tokens, on the device of the scores that are summed over them. All other tokens are one more group."""

    ids: torch.Tensor  # int64 [n], the tokens of all groups
    member: torch.Tensor  # float32 [n, groups], 1 where a token is in a group

    @classmethod
    def of(cls, groups: Mapping[int, int], vocab_size: int, device: torch.device | str = "cpu") -> Groups:
        """From token id -> number of its group; ids from `vocab_size` on are left out."""
        known = {id_: group for id_, group in groups.items() if id_ < vocab_size}
        member = torch.zeros(len(known), max(known.values(), default=-1) + 1)
        member[torch.arange(len(known)), torch.tensor(list(known.values()), dtype=torch.long)] = 1.0
        return cls(torch.tensor(list(known), dtype=torch.long, device=device), member.to(device))

    def entropies(self, probabilities: torch.Tensor) -> torch.Tensor:
        """Entropy between the groups, nats: probabilities [m, n] of `ids`, one row a distribution -> [m]."""
        summed = probabilities @ self.member
        rest = (1.0 - summed.sum(dim=-1, keepdim=True)).clamp(min=0.0)
        nats: torch.Tensor = torch.special.entr(torch.cat((summed, rest), dim=-1)).sum(dim=-1)
        return nats


def read(
    scores: torch.Tensor | Sequence[torch.Tensor],
    listed: int = 0,
    *,
    ids: torch.Tensor | None = None,
    spread: bool = False,
    doubt: bool = False,
    groups: Groups | None = None,
) -> list[RowFigures]:
    """The figures of rows of processed scores [m, vocab], or of parts of these, in one fetch.

    Args:
        scores: the rows.
        listed: how many most likely tokens to name; 0: probabilities are not computed, unless `doubt` is.
        ids: int64 [m] on the device, the token of each row; None: the most likely ones.
        spread, doubt: whether to compute them.
        groups: over which `Doubt.class_entropy` is; None: it is 0.
    """
    parts = _parts([scores] if isinstance(scores, torch.Tensor) else scores, split=doubt)
    tokens = [None] * len(parts) if ids is None else torch.split(ids, [len(part) for part in parts])
    columns = [_columns(part, own, listed, spread, doubt, groups) for part, own in zip(parts, tokens, strict=True)]
    fetched = (columns[0] if len(columns) == 1 else torch.cat(columns)).tolist()
    return [_row(figures, listed, spread, doubt) for figures in fetched]


def named(candidates: Candidates) -> Candidates:
    """Most likely tokens as records hold them: the best, and others of at least `LEAST_PROBABILITY`."""
    pairs = enumerate(candidates)
    return tuple((id_, round(p, 5)) for place, (id_, p) in pairs if place == 0 or p >= LEAST_PROBABILITY)


def reads_each_row(device: torch.device, vocab_size: int) -> bool:
    """Whether doubt is computed row by row: a CPU's cache holds what one large row needs, but not several."""
    return device.type == "cpu" and vocab_size > _LARGE


def _parts(scores: Sequence[torch.Tensor], *, split: bool) -> list[torch.Tensor]:
    """Scores [m, vocab] in the parts whose figures are computed at a time; `split`: row by row if that is faster."""
    if split and reads_each_row(scores[0].device, scores[0].shape[-1]):
        return [row for part in scores for row in torch.split(part, 1)]
    return [scores[0] if len(scores) == 1 else torch.cat([*scores])]


def _columns(
    scores: torch.Tensor, ids: torch.Tensor | None, listed: int, spread: bool, doubt: bool, groups: Groups | None
) -> torch.Tensor:
    """What `read` fetches of rows [m, vocab], as float32 [m, figures]; `_row` splits it."""
    best, values, others = ranked(scores, max(listed, 2 if spread or doubt else 1))
    top = values[:, :1]
    tokens = (best if ids is None else ids)[:, None]
    columns = [best[:, None], tokens]
    if doubt:
        weights, total, nats = _entropies(scores, top)
        between = (
            torch.zeros_like(nats) if groups is None else groups.entropies(weights[:, groups.ids] / total)[:, None]
        )
        log_sum = total.log().add_(top)  # a score minus this is the logarithm of its probability
        columns += [nats, between]
    if listed and not doubt:
        log_sum = scores.logsumexp(dim=-1, keepdim=True)
    if listed or doubt:
        columns += [log_sum, top if ids is None else scores.gather(1, tokens)]
    if spread:
        columns.append(_spread(scores)[:, None])
    return torch.cat([*columns, values, others], dim=-1)


def _row(figures: list[float], listed: int, spread: bool, doubt: bool) -> RowFigures:
    id_, token, *rest = figures
    doubts = Doubt(rest.pop(0), rest.pop(0)) if doubt else None
    log_sum, logprob = 0.0, None
    if listed or doubt:  # subtracted here as for candidates, so that equal scores have equal probabilities
        log_sum, score = rest.pop(0), rest.pop(0)
        logprob = score - log_sum
    found_spread = rest.pop(0) if spread else None
    values, tokens = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    best, gap = values[0], values[0] - values[1] if len(values) > 1 else math.inf
    possible = zip(tokens[:listed], values, strict=False) if math.isfinite(best) else ()
    candidates = tuple((int(other), math.exp(value - log_sum)) for other, value in possible if value > -math.inf)
    return RowFigures(int(id_), best, int(token), logprob, candidates, gap, found_spread, doubts)


def _entropies(scores: torch.Tensor, top: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The entropies of rows [m, vocab] whose best scores are `top` [m, 1].

    Returns the weights w = exp(score - best) [m, vocab], in proportion to the probabilities; their sums W [m, 1]; and
    the entropies H = log W - sum(w log w) / W [m, 1], nats. Neither term is negative. Impossible
    tokens have the weight 0.
    """
    # powers of two take a CPU a fifth of the time of exponentials
    bits = (scores - top).mul_(_BITS).clamp_(min=_LEAST)
    weights = bits.exp2()
    total = weights.sum(dim=-1, keepdim=True)
    mean = bits.mul_(weights).sum(dim=-1, keepdim=True) / total  # a matrix product rounds a thousandfold more
    return weights, total, total.log() - mean / _BITS


def _spread(scores: torch.Tensor) -> torch.Tensor:
    """Standard deviation of the finite ones among at least 4,096 evenly spaced scores of each row, or all: [m].

    Two passes over a vocabulary of 152,000 would take ten times as long as finding the best token.
    """
    sample = scores[:, :: max(scores.shape[-1] // _SAMPLED, 1)].contiguous()
    impossible = sample == -math.inf
    count = (~impossible).sum(dim=-1, keepdim=True)
    mean = sample.masked_fill(impossible, 0.0).sum(dim=-1, keepdim=True) / count
    squares: torch.Tensor = (sample - mean).masked_fill_(impossible, 0.0).square_().sum(dim=-1)
    return (squares / count[:, 0]).sqrt()


def most_likely(scores: torch.Tensor) -> torch.Tensor:
    """The most likely token of each row [m, vocab], the first of equal ones: int64 [m]."""
    return scores.argmax(dim=-1) if scores.shape[-1] <= _SEARCHED else ranked(scores, 1)[0]


def ranked(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The most likely token of each row [m, vocab], as `most_likely` finds it, and the `count` best scores.

    Returns the tokens int64 [m], the scores [m, count], best first, and their tokens int64 [m, count]. Of equal scores
    any may come first.
    """
    if count == 1 and scores.shape[-1] <= _SEARCHED:
        best, ids = scores.max(dim=-1, keepdim=True)
        return ids[:, 0], best, ids
    if scores.shape[-1] <= _SEARCHED or count > scores.shape[-1] // _WIDTH:
        return scores.argmax(dim=-1), *scores.topk(min(count, scores.shape[-1]), dim=-1)
    maxima = _maxima(scores)
    strips = torch.cat((maxima.argmax(dim=-1, keepdim=True), maxima.topk(count, dim=-1).indices), dim=-1)
    places = (strips[..., None] * _WIDTH + torch.arange(_WIDTH, device=scores.device)).flatten(1)
    found = scores.gather(1, places.clamp(max=scores.shape[-1] - 1)).masked_fill_(places >= scores.shape[-1], -math.inf)
    first = found[:, :_WIDTH].argmax(dim=-1, keepdim=True)
    values, at = found[:, _WIDTH:].topk(count, dim=-1)
    return places.gather(1, first)[:, 0], values, places[:, _WIDTH:].gather(1, at)


def _maxima(scores: torch.Tensor) -> torch.Tensor:
    """The best score of each strip of `_WIDTH` tokens, the last one being shorter or none: [m, strips]."""
    whole = scores.shape[-1] // _WIDTH * _WIDTH
    found: torch.Tensor = torch.unflatten(scores[:, :whole], -1, (-1, _WIDTH)).amax(dim=-1)
    if whole < scores.shape[-1]:
        found = torch.cat((found, scores[:, whole:].amax(dim=-1, keepdim=True)), dim=-1)
    return found
