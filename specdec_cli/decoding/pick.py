"""Figures of rows of processed scores, computed on their device and fetched with one copy.

A fetch waits for the device, so one fetch takes everything that the host will read of a forward. Figures are fetched as
float32, which holds token ids below 2^24 exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from specdec_cli.errors import ScoresError
from specdec_cli.types import LEAST_PROBABILITY, Candidates

if TYPE_CHECKING:
    import torch

_SEARCHED: Final = 8192  # vocabulary up to which the best scores are searched for directly
_WIDTH: Final = 128  # scores of a strip: in a larger vocabulary only the strips with the best maxima are searched
_SAMPLED: Final = 4096  # least scores of a row from which its spread is computed


class ScoreReading(NamedTuple):
    """The figures of one row of processed scores."""

    id: int  # of the most likely token, the first of equal ones
    best: float  # its score; a row whose best is not finite must choose no token
    gap: float  # its score minus the second best; infinite if no other token is possible
    spread: float  # standard deviation of the possible tokens' scores
    passes: bool = True  # whether the drafted token at this place passes the rule, if the rule reads scores
    candidates: Candidates = ()  # the most likely tokens

    def ties(self, tolerance: float) -> bool:
        """Whether the two best scores are a near tie: within `tolerance` times the spread (at least 1)."""
        return self.gap <= tolerance * max(self.spread, 1.0)


def not_finite(name: str) -> ScoresError:
    """The error for scores of the model `name` that are NaN or infinite, and would choose tokens in silence."""
    return ScoresError(
        f"the logits of {name} are not finite",
        hint="If decoding.no_repeat_ngram is set, it may have banned all tokens. Otherwise: float16 overflows in many "
        "models, so use bfloat16 or float32, or download the checkpoint again.",
    )


def most_likely(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The best score of each row [m, vocab] and its token, the first of equal ones: float [m], int64 [m]."""
    if scores.shape[-1] <= _SEARCHED:
        return scores.max(dim=-1)
    ids, values, _ = ranked(scores, 1)
    return values[:, 0], ids


def ranked(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The most likely token of each row [m, vocab], as `most_likely` finds it, and the `count` best scores.

    Returns the tokens int64 [m], the scores [m, count], best first, and their tokens int64 [m, count]. Of equal scores
    any may come first.
    """
    import torch

    if scores.shape[-1] <= _SEARCHED:
        return scores.argmax(dim=-1), *scores.topk(min(count, scores.shape[-1]), dim=-1)
    maxima = _maxima(scores)
    strips = torch.cat((maxima.argmax(dim=-1, keepdim=True), maxima.topk(count, dim=-1).indices), dim=-1)
    places = (strips[..., None] * _WIDTH + torch.arange(_WIDTH, device=scores.device)).flatten(1)
    found = scores.gather(1, places.clamp(max=scores.shape[-1] - 1)).masked_fill_(places >= scores.shape[-1], -math.inf)
    first = found[:, :_WIDTH].argmax(dim=-1, keepdim=True)
    values, at = found[:, _WIDTH:].topk(count, dim=-1)
    return places.gather(1, first)[:, 0], values, places[:, _WIDTH:].gather(1, at)


def choices(scores: torch.Tensor, name: str, drawn: torch.Tensor | None = None) -> list[int]:
    """The ids of the most likely token of each row [m, vocab], or of the tokens `drawn`, int64 [m].

    Raises ScoresError, which names the model `name`, if the scores of a row are not finite.
    """
    found = [id_ for id_ in finite_choices(scores, drawn) if id_ is not None]
    if len(found) < len(scores):
        raise not_finite(name)
    return found


def finite_choices(scores: torch.Tensor, drawn: torch.Tensor | None = None) -> list[int | None]:
    """As `choices`, but None for a row whose scores are not finite: no text may need it."""
    import torch

    values, found = most_likely(scores)
    fetched = torch.cat((found if drawn is None else drawn, values)).tolist()
    pairs = zip(fetched[: len(scores)], fetched[len(scores) :], strict=True)
    return [int(id_) if math.isfinite(best) else None for id_, best in pairs]


class Likeliest(NamedTuple):
    """The most likely tokens of one row of scores, as the sound judges them."""

    id: int  # of the most likely, the first of equal ones
    best: float  # its score
    candidates: Candidates  # the most likely tokens, best first, with exact probabilities


def likeliest(scores: torch.Tensor, count: int) -> list[Likeliest]:
    """The `count` most likely tokens of each row [m, vocab], in one fetch."""
    import torch

    ids, values, others = ranked(scores, count)
    p = (values - scores.logsumexp(dim=-1, keepdim=True)).exp()
    rows = torch.cat((ids[:, None], values[:, :1], p, others), dim=-1).tolist()
    return [
        Likeliest(int(id_), best, tuple(zip(map(int, rest[len(rest) // 2 :]), rest[: len(rest) // 2], strict=True)))
        for id_, best, *rest in rows
    ]


def readings(scores: torch.Tensor, passes: torch.Tensor | None = None, listed: int = 0) -> list[ScoreReading]:
    """The figures that a verdict needs of rows [m, vocab] of scores, in one fetch.

    Args:
        passes: bool [n], n <= m, whether the drafted tokens at the first n rows pass; None: all pass.
        listed: how many most likely tokens to name in each row.
    """
    import torch

    ids, values, others = ranked(scores, max(listed, 2))
    columns = [ids[:, None], values[:, :1], values[:, :1] - values[:, 1:2], _spread(scores)[:, None]]
    if passes is not None:
        columns.append(torch.nn.functional.pad(passes.float(), (0, len(scores) - len(passes)))[:, None])
    if listed:
        total = scores.logsumexp(dim=-1, keepdim=True)
        columns += [(values - total).exp()[:, :listed], others[:, :listed]]
    found = []
    for id_, top, gap, spread, *rest in torch.cat(columns, dim=-1).tolist():
        passed = passes is None or rest.pop(0) > 0
        half = len(rest) // 2
        candidates = named(rest[half:], rest[:half]) if listed and math.isfinite(top) else ()
        found.append(ScoreReading(int(id_), top, gap, spread, passed, candidates))
    return found


def named(ids: Sequence[float], probabilities: Sequence[float]) -> Candidates:
    """The most likely tokens of a row, as records hold them: the best, and others of at least `LEAST_PROBABILITY`."""
    pairs = enumerate(zip(ids, probabilities, strict=True))
    return tuple((int(id_), round(p, 5)) for place, (id_, p) in pairs if place == 0 or p >= LEAST_PROBABILITY)


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


def _maxima(scores: torch.Tensor) -> torch.Tensor:
    """The best score of each strip of `_WIDTH` tokens, the last one being shorter or none: [m, strips]."""
    import torch

    whole = scores.shape[-1] // _WIDTH * _WIDTH
    found: torch.Tensor = torch.unflatten(scores[:, :whole], -1, (-1, _WIDTH)).amax(dim=-1)
    if whole < scores.shape[-1]:
        found = torch.cat((found, scores[:, whole:].amax(dim=-1, keepdim=True)), dim=-1)
    return found
