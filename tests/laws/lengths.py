"""How far a block is drafted under `-k auto`, once more and from scratch."""

import math

MOST = 16
SOLO_BLOCK = 4


class Lengths:
    """One clip: how many of its tokens were verified and accepted so far."""

    def __init__(self, cost: float, *, lossless: bool) -> None:
        self.cost, self.lossless = cost, lossless
        self.verdicts: list[bool] = []  # of each verified token, the first rejected one of a block included

    def chance(self) -> float:
        """That a token is accepted; 0.7 of a token is supposed before any was verified."""
        return (0.7 + sum(self.verdicts)) / (1 + len(self.verdicts))

    def rate(self) -> float:
        """Tokens in the time of a verification, at the best length."""
        return max(sum(self.chance() ** i for i in range(k + 1)) / (self.cost * k + 1) for k in range(1, MOST + 1))

    def most(self) -> int:
        """Tokens of the next block, at most."""
        return 0 if self.lossless and self.rate() <= 1 else MOST

    def enough(self, probabilities: list[float]) -> tuple[bool, bool]:
        """Whether a block that will be verified ends here, and whether that is a close call."""
        gain, cost = math.prod(probabilities) * self.chance(), self.cost * self.rate()
        return gain < cost, abs(gain - cost) <= 2e-3 * cost

    def verified(self, drafted: int, accepted: int) -> None:
        """A block of so many tokens, of which so many were accepted."""
        self.verdicts += [True] * accepted + [False] * (accepted < drafted)
