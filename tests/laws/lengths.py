"""How far a block is drafted under `-k auto`, once more and from scratch: every share anew from all that was seen."""

import math

MOST = 16
SOLO_BLOCK = 4


class Fraction:
    """Of what was expected, how much stood: the last cases first in weight, and `start` of one case."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._seen: list[list[float]] = []  # (expected, stood, weight)

    def see(self, expected: float, stood: float, fading: float = 0.9) -> None:
        """More cases; the former ones count less."""
        self._seen = [[e, s, weight * fading] for e, s, weight in self._seen] + [[expected, stood, 1.0]]

    @property
    def value(self) -> float:
        """The fraction."""
        return (self._start + sum(s * w for _, s, w in self._seen)) / (1 + sum(e * w for e, _, w in self._seen))


class Lengths:
    """One clip: what was seen of its tokens so far."""

    def __init__(self, cost: float, *, lossless: bool) -> None:
        self.cost, self.lossless = cost, lossless
        self.passed, self.trust = Fraction(0.7), Fraction(1.0)
        self._best_rate = 0.0

    def rate(self, k: int) -> float:
        """Tokens in the time of a verification."""
        if k == 0:
            return 1.0 if self.lossless else 0.0
        return sum(self.passed.value**i for i in range(k + 1)) / (self.cost * (k + 0.1) + 1)

    def most(self) -> tuple[int, bool]:
        """Tokens of the next block, at most, and whether another number is as good but for rounding."""
        rates = {k: self.rate(k) for k in range(MOST + 1)}
        best = max(rates, key=lambda k: rates[k])
        self._best_rate = rates[best]
        if best == 0:
            self.passed.see(0.0, 0.0, 0.98)
        if not self.lossless:
            return MOST, False
        return best, any(k != best and rate > 0.999 * rates[best] for k, rate in rates.items())

    def enough(self, probabilities: list[float]) -> tuple[bool, bool]:
        """Whether a block that will be verified ends here, and whether that is a close call."""
        gain = math.prod(probabilities) * self.trust.value * self.passed.value
        cost = self.cost * self._best_rate
        return gain < cost, abs(gain - cost) <= 2e-3 * cost

    def verified(self, probabilities: list[float], accepted: int) -> None:
        """A block of tokens with such probabilities, of which so many were accepted."""
        judged = probabilities[: accepted + 1]
        if judged:
            self.passed.see(len(judged), accepted)
            self.trust.see(sum(math.prod(judged[: end + 1]) for end in range(len(judged))), accepted)
