"""What "equal" means on every machine: the tolerance of the laws.

Floating point does not promise bits. A law states, at every position along an emitted text: the cache-free score of the
emitted token lies within `TOLERANCE` standard deviations of the row (at least 1) of the best one, and recorded figures
agree with those of the cache-free row within what such a difference of the scores can do to them.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Final

import torch

TOLERANCE: Final = 2e-4
Scores = Callable[[Sequence[int]], torch.Tensor]
"""Cache-free processed scores [vocab] after a text."""


class LawBroken(AssertionError):
    """A text, a figure or a decision that rounding does not explain."""


def numbers(base: int = 0, share: float = 1.0) -> range:
    """Numbers of the cases of a law, or of a test that is about `share` of it, from `base` on.

    6 unless `SPECDEC_CASES` says otherwise: a count, or two numbers ("20-1000") to go on after those of another run.
    """
    first, _, last = os.environ.get("SPECDEC_CASES", "6").rpartition("-")
    start, end = (base + round(share * int(number or 0)) for number in (first, last))
    return range(start, max(end, start + 4))


def cases(share: float = 1.0) -> int:
    """How many those are."""
    return len(numbers(share=share))


ENOUGH: Final = 200
"""Cases among which every kind of case is found; below, nothing is said of how many there are of each."""


def most_parting(cases: int) -> float:
    """Most whole texts of a run that may part from those that they are compared with."""
    return max(2.0, 0.002 * cases)


def allowed(row: torch.Tensor) -> float:
    """Largest difference of two scores of a row [vocab] that rounding explains."""
    finite = row[row.isfinite()]
    spread = float(finite.std()) if len(finite) > 1 else 0.0
    return TOLERANCE * max(1.0, spread)


def assert_law(text: Sequence[int], scores: Scores, name: str = "") -> None:
    """Every token of `text` is the best, or as good as the best, by the scores after what precedes it.

    Raises:
        LawBroken: one is not; names the position, the token, and by how much.
    """
    for at, token in enumerate(text):
        row = scores(text[:at])
        short = float(row.max() - row[token])
        if not short <= allowed(row):
            raise LawBroken(
                f"{name}: token {at} is {token}, which scores {short:.3g} below the best, {int(row.argmax())}, "
                f"and {allowed(row):.2g} is allowed"
            )


def nats(row: torch.Tensor) -> float:
    """Entropy of the distribution of a row of scores."""
    p = row.double().softmax(-1)
    return -float((p * p.log()).nan_to_num().sum())


def figures(row: torch.Tensor, token: int) -> tuple[float, float, float]:
    """(entropy, margin, logprob) of a token by its row [vocab]."""
    probabilities = row.double().softmax(-1)
    best = probabilities.topk(2).values.tolist()
    own = float(probabilities[token])
    return nats(row), best[0] - best[1], math.log(own) if own > 0 else -math.inf


def slack(row: torch.Tensor) -> tuple[float, float, float]:
    """By how much (entropy, margin, logprob) may differ if every score of the row differs by `allowed`.

    For small differences e of the scores, dH = -sum p (log p + H) e, at most 2 H max|e|; dp <= p (1 - p) 2 max|e|;
    d log p <= 2 max|e|.
    """
    off = allowed(row)
    return 2 * off * max(1.0, nats(row)) + 1e-5, off + 1e-5, 2 * off + 1e-5


def assert_figures(row: torch.Tensor, token: int, recorded: tuple[float, float, float], name: str = "") -> None:
    """Recorded (entropy, margin, logprob) of a drafted token agree with its cache-free row.

    Raises:
        LawBroken: one does not.
    """
    wanted = figures(row, token)
    for what, ours, theirs, most in zip(("entropy", "margin", "logprob"), recorded, wanted, slack(row), strict=True):
        if ours != theirs and not abs(ours - theirs) <= most:
            raise LawBroken(f"{name}: {what} of {token} is recorded as {ours:.6f}, and is {theirs:.6f}")
