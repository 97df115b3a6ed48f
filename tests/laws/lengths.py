"""How far a block is drafted under `-k auto`, once more and from scratch: every mean anew from all that was seen."""

from __future__ import annotations

import math

MOST = 16
ALONE = 4


class Mean:
    """Of what was seen, the last first in weight, and of `start`, which counts as one case."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._seen: list[tuple[float, float]] = []  # (value, how often it has faded)

    def see(self, values: list[float]) -> None:
        """More cases, the last one at the end."""
        self._seen += [(value, 1.0) for value in values]

    def fade(self) -> None:
        """Every case counts a little less."""
        self._seen = [(value, 0.98 * weight) for value, weight in self._seen]

    @property
    def value(self) -> float:
        """The mean."""
        weights = [0.95**age * faded for age, (_, faded) in enumerate(reversed(self._seen))]
        total = sum(weight * value for weight, (value, _) in zip(weights, reversed(self._seen), strict=True))
        return (self._start + total) / (1 + sum(weights))


class Lengths:
    """One clip: what was seen of its tokens so far.

    `alone`: whether the cloud may write without a draft.
    """

    def __init__(self, cost: float, *, always: bool, alone: bool) -> None:
        self.cost, self.always, self.alone = cost, always, alone
        self.passed, self.believed, self.unsure = Mean(0.7), Mean(0.7), Mean(0.1)
        self._best_rate = 0.0

    def rate(self, k: int) -> float:
        """Tokens in the time of a verification."""
        a, s = self.passed.value, self.unsure.value
        asked = 1.0 if self.always else 1 - (1 - s) ** k
        expected = sum(a**i for i in range(k + 1))
        return ((1 - asked) * k + asked * expected) / (self.cost * k + asked + 0.1 * self.cost)

    def most(self) -> tuple[int, bool]:
        """Tokens of the next block, at most, and whether another number is as good but for rounding."""
        rates = {k: self.rate(k) for k in range(0 if self.alone else 1, MOST + 1)}
        best = max(rates, key=lambda k: rates[k])
        self._best_rate = rates[best]
        if best == 0:
            self.passed.fade()
            self.believed.fade()
        return best, any(k != best and rate > 0.999 * rates[best] for k, rate in rates.items())

    def enough(self, probabilities: list[float]) -> tuple[bool, bool]:
        """Whether a block that will be verified ends here, and whether that is a close call."""
        a, level = self.passed.value, self.believed.value
        gain = math.prod(min(1.0, p * a / level) for p in probabilities) * a
        cost = self.cost * self._best_rate
        return gain < cost, abs(gain - cost) <= 2e-3 * cost

    def kept(self, tokens: int) -> None:
        """A block that was not verified."""
        self.unsure.see([0.0] * tokens)

    def verified(self, probabilities: list[float], accepted: int) -> None:
        """A block of tokens with such probabilities, of which so many were accepted."""
        judged = probabilities[: accepted + 1]
        self.passed.see([float(index < accepted) for index in range(len(judged))])
        self.believed.see(judged)
        self.unsure.see([0.0] * (len(probabilities) - 1) + [1.0] if probabilities else [])
