"""How far a block is drafted under `-k auto`, once more and from scratch: every mean anew from all that was seen."""

from __future__ import annotations

import math

MOST = 16


def mean(start: float, seen: list[float]) -> float:
    """Of what was seen, the last first in weight, and of `start`, which counts as one case."""
    weights = [0.95**age for age in range(len(seen))][::-1]
    total = sum(weight * value for weight, value in zip(weights, seen, strict=True))
    return (start + total) / (1 + sum(weights))


class Lengths:
    """One clip in hybrid mode: what was seen of its tokens so far, oldest first."""

    def __init__(self, cost: float, *, always: bool) -> None:
        self.cost = cost
        self.always = always
        self.passed: list[float] = []
        self.believed: list[float] = []
        self.unsure: list[float] = []

    def rate(self, k: int) -> float:
        """Tokens in the time of a verification."""
        a, s = mean(0.7, self.passed), mean(0.1, self.unsure)
        asked = 1.0 if self.always else 1 - (1 - s) ** k
        expected = sum(a**i for i in range(k + 1))
        return ((1 - asked) * k + asked * expected) / (self.cost * k + asked + 0.1 * self.cost)

    def most(self) -> int:
        """Tokens of the next block, at most."""
        return max(range(1, MOST + 1), key=self.rate)

    def enough(self, probabilities: list[float]) -> bool:
        """Whether a block that will be verified ends here."""
        a, level = mean(0.7, self.passed), mean(0.7, self.believed)
        chance = math.prod(min(1.0, p * a / level) for p in probabilities)
        return chance * a < self.cost * self.rate(self.most())

    def kept(self, tokens: int) -> None:
        """A block that was not verified."""
        self.unsure += [0.0] * tokens

    def verified(self, probabilities: list[float], accepted: int) -> None:
        """A block of tokens with such probabilities, of which so many were accepted."""
        judged = probabilities[: accepted + 1]
        self.passed += [float(index < accepted) for index in range(len(judged))]
        self.believed += judged
        self.unsure += [0.0] * (len(probabilities) - 1) + [1.0]
