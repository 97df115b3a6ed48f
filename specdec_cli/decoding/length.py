"""How far to draft (`-k auto`): from what a token and a verification cost, and from how often drafts have passed.

With a chance a that a drafted token passes, a verified block of k tokens gives

    E(k) = 1 + a + ... + a^k = (1 - a^(k + 1)) / (1 - a)

tokens on average, the cloud's own one included (Leviathan et al. 2023, eq. 1). Times are in units of a verification,
with its round trip where there is a link; a drafted token costs c of it. So tokens come at the rate

    R(k) = ((1 - x) k + x E(k)) / (c k + x + o),        x = 1 - (1 - s)^k

where s is the chance that the gate is unsure of a token, x the chance that it is of a block, and o what the loop itself
takes for a round, a tenth of an edge step. Where every block is verified x is 1, and in lossless mode k may be 0: then
the cloud writes a few tokens alone. A block has at most the k of the largest R, the smallest such one.

It ends earlier where the edge is unsure. Of a block that will be verified, let q_1 ... q_j be the chances that the
tokens so far pass. One more gains q_1 ... q_j a tokens on average for the time c, in which tokens at the best rate
would be c R; so drafting ends once

    q_1 * ... * q_j * a < c R,            q_i = min(1, p_i a / p),

p_i being the edge's probability of token i and p the mean of it over the tokens that were judged: what the edge
believes, brought to the level of what has passed.

a, p and s are running means over the clip, older tokens counting less, that begin at the values below. Nothing of
another clip enters, and nothing of the clock but c; with `decoding.cost_ratio` given, nothing at all.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Final

from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.gate import Judge
from specdec_cli.types import ModelWork

MOST_DRAFTED: Final = 16  # tokens per round, where the number is not given
MOST_DEFERRED: Final = 64  # tokens of a deferred draft: what the schema allows a block, and a server a draft
ALONE: Final = 4  # tokens of a block where nothing is verified, and of the cloud's where nothing is drafted
PASSES: Final = 0.7  # what a and p begin at
UNSURE: Final = 0.1  # what s begins at
COST: Final = 0.2  # c while nothing has been measured
ROUND: Final = 0.1  # o / c: measured on the mini pair, whose steps are the fastest that the loop has to keep up with
_KEPT: Final = 0.95  # of what is known, after every token that comes to be known
_KEPT_ALONE: Final = 0.98  # of what is known of drafts, after every round without one: then one is tried again
_WINDOW: Final = 32  # measurements that a median is taken of
_FEWEST_CLIPS: Final = 4


def most_drafted(settings: DecodingConfig) -> int:
    """Tokens drafted per round at most."""
    if settings.defers:
        return MOST_DEFERRED
    return MOST_DRAFTED if settings.k == "auto" else settings.k


def capacity(settings: DecodingConfig) -> int:
    """Most tokens that follow a prompt at any time: the text, a block after it and the cloud's own token."""
    return settings.max_new_tokens + most_drafted(settings) + 1


class Costs:
    """What a step of the edge and a verification take on this machine: running medians, shared by all clips.

    Also how many of the latest clips have called the cloud.
    """

    def __init__(self) -> None:
        self._edge: deque[float] = deque(maxlen=_WINDOW)
        self._cloud: deque[float] = deque(maxlen=_WINDOW)
        self._called: deque[bool] = deque(maxlen=_WINDOW)

    def drafted(self, before: ModelWork, after: ModelWork) -> None:
        """Takes in the steps that the edge made between two accounts of its work."""
        steps = after.forwards - before.forwards - (after.encoder_passes - before.encoder_passes)
        if steps > 0:
            self._edge.append((after.step_ms - before.step_ms) / steps)

    def verified(self, verdict: Verdict) -> None:
        """Takes in one verification out of an exchange that may have run on, its round trip included."""
        if not verdict.prefilled:
            self._cloud.append(verdict.ms / (1 + len(verdict.more)) + (verdict.network_ms or 0.0))

    def finished(self, *, called: bool) -> None:
        """Takes in a clip, and whether it called the cloud."""
        self._called.append(called)

    @property
    def calls_often(self) -> bool:
        """Whether at least half of the latest clips have called the cloud; not before there are four."""
        return len(self._called) >= _FEWEST_CLIPS and 2 * sum(self._called) >= len(self._called)

    @property
    def ratio(self) -> float | None:
        """A step of the edge in units of a verification; None before both have been measured."""
        if not self._edge or not self._cloud or median(list(self._cloud)) <= 0:
            return None
        return median(list(self._edge)) / median(list(self._cloud))


class _Share:
    """A running share that begins at `value`, older cases, from 0 to 1, counting less."""

    def __init__(self, value: float) -> None:
        self.value = self._start = value
        self._cases = self._sum = 0.0

    def add(self, *cases: float, kept: float = _KEPT) -> None:
        """Takes in a case; none, to trust those so far a little less."""
        self._cases = self._cases * kept + len(cases)
        self._sum = self._sum * kept + sum(cases)
        self.value = (self._start + self._sum) / (1.0 + self._cases)


@dataclass(eq=False)
class AdaptiveLength:
    """The length that pays, for one clip of a mode with both models."""

    cost_ratio: float | None  # c; None: as measured
    costs: Costs
    always: bool  # whether every block is verified
    alone: bool  # whether the cloud may write without a draft

    def __post_init__(self) -> None:
        self._passes, self._probability, self._unsure = _Share(PASSES), _Share(PASSES), _Share(UNSURE)  # a, p and s
        self._cost, self._rate = COST, 0.0

    def most(self) -> int:
        """The k of the largest R."""
        self._cost = self.cost_ratio if self.cost_ratio is not None else self.costs.ratio or COST
        best, self._rate = 0, 0.0
        passing = expected = 1.0  # a^k and E(k)
        for k in range(MOST_DRAFTED + 1):
            asked = 1.0 if self.always else 1.0 - (1.0 - self._unsure.value) ** k
            if k > 0 or self.alone:
                rate = ((1.0 - asked) * k + asked * expected) / (self._cost * (k + ROUND) + asked)
                if rate > self._rate:
                    best, self._rate = k, rate
            passing *= self._passes.value
            expected += passing
        if best == 0:
            self._passes.add(kept=_KEPT_ALONE)
            self._probability.add(kept=_KEPT_ALONE)
        return best

    def enough(self, judge: Judge) -> bool:
        """Whether one more token would cost more than it gains, in a block that is to be verified."""
        a, level = self._passes.value, self._probability.value
        chances = (min(1.0, token.probability * a / level) for token in judge.evidence)
        return judge.escalates and prod(chances) * a < self._cost * self._rate

    def learn(self, draft: Draft, verdict: Verdict | None) -> None:
        """Takes in what became of a block."""
        block = draft.evidence
        for left in reversed(range(len(block))):  # one of them made the gate unsure, and the order hardly matters
            self._unsure.add(float(verdict is not None and left == 0))
        if verdict is not None:  # the accepted tokens were judged, and the first rejected one
            for index, token in enumerate(block[: verdict.accepted + 1]):
                self._passes.add(float(index < verdict.accepted))
                self._probability.add(token.probability)
