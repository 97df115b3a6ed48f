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
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Final, Protocol

import torch

from specdec_cli.decoding.draft import Stop
from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.gate import Judge
from specdec_cli.decoding.options import MOST_DRAFTED, DecodingOptions
from specdec_cli.types import ModelWork

ALONE: Final = 4
"""Tokens of a block where nothing is verified, and of the cloud's where nothing is drafted."""

PASSES: Final = 0.7  # what a and p begin at
UNSURE: Final = 0.1  # what s begins at
COST: Final = 0.2  # c while nothing has been measured
ROUND: Final = 0.1  # o / c: measured on the mini pair, whose steps are the fastest that the loop has to keep up with
_KEPT: Final = 0.95  # of what is known, behind every token that comes to be known
_KEPT_ALONE: Final = 0.98  # of what is known of drafts, behind every round without one: then one is tried again
_WINDOW: Final = 32  # measurements that a median is taken of


class Costs:
    """What a step of the edge and a verification take on this machine: running medians, shared by all clips."""

    def __init__(self) -> None:
        self._edge: deque[float] = deque(maxlen=_WINDOW)
        self._cloud: deque[float] = deque(maxlen=_WINDOW)

    def drafted(self, before: ModelWork, after: ModelWork) -> None:
        """Takes in the steps that the edge made between two accounts of its work."""
        steps = after.forwards - before.forwards - (after.encoder_passes - before.encoder_passes)
        if steps > 0:
            self._edge.append((after.step_ms - before.step_ms) / steps)

    def verified(self, ms: float) -> None:
        """Takes in a verification that began with the prompt read, its round trip included, milliseconds."""
        self._cloud.append(ms)

    @property
    def ratio(self) -> float | None:
        """A step of the edge in units of a verification; None before both have been measured."""
        if not self._edge or not self._cloud or median(self._cloud) <= 0:
            return None
        return median(self._edge) / median(self._cloud)


@dataclass(slots=True)
class Share:
    """A running share, older cases counting less.

    Attributes:
        start: what it is before there are any; counts as one case.
        cases, sum: weights of the cases, and of what they add up to.
    """

    start: float
    cases: float = 0.0
    sum: float = 0.0

    def add(self, value: float) -> None:
        """One more case, from 0 to 1."""
        self.cases = self.cases * _KEPT + 1.0
        self.sum = self.sum * _KEPT + value

    def fade(self) -> None:
        """Trusts all cases a little less."""
        self.cases *= _KEPT_ALONE
        self.sum *= _KEPT_ALONE

    @property
    def value(self) -> float:
        """The share."""
        return (self.start + self.sum) / (1.0 + self.cases)


class BlockLength(Protocol):
    """Whoever says how far to draft."""

    def most(self) -> int:
        """Most tokens of the next block."""

    def stop(self, judge: Judge) -> Stop | None:
        """To be asked after each token of that block whether it ends with it; `judge` is the gate at work on it."""

    def kept(self, block: Sequence[TokenEvidence]) -> None:
        """Takes in a block that was kept without asking."""

    def verified(self, block: Sequence[TokenEvidence], accepted: int) -> None:
        """Takes in a block of whose tokens so many were accepted."""

    def drafted(self, before: ModelWork, after: ModelWork) -> None:
        """Takes in what the edge has done for a block."""

    def took(self, ms: float) -> None:
        """Takes in how long a verification took, its round trip included and no prefill, milliseconds."""


@dataclass(frozen=True, slots=True)
class FixedLength:
    """Always `k`, as far as the gate lets it."""

    k: int

    def most(self) -> int:
        """k."""
        return self.k

    def stop(self, judge: Judge) -> Stop | None:
        """The gate's own."""
        return judge.stop

    def kept(self, block: Sequence[TokenEvidence]) -> None:
        """Changes nothing."""

    def verified(self, block: Sequence[TokenEvidence], accepted: int) -> None:
        """Changes nothing."""

    def drafted(self, before: ModelWork, after: ModelWork) -> None:
        """Changes nothing."""

    def took(self, ms: float) -> None:
        """Changes nothing."""


@dataclass(slots=True)
class AdaptiveLength:
    """The length that pays, for one clip of a mode with both models.

    Attributes:
        options: of the run.
        costs: of the pair.
        passes: a.
        probability: p.
        unsure: s; 1 where every block is verified.
    """

    options: DecodingOptions
    costs: Costs
    passes: Share = field(default_factory=lambda: Share(PASSES))
    probability: Share = field(default_factory=lambda: Share(PASSES))
    unsure: Share = field(default_factory=lambda: Share(UNSURE))
    _cost: float = COST
    _rate: float = 0.0

    def most(self) -> int:
        """The k of the largest R."""
        lossless = self.options.mode == "lossless"
        always = lossless or self.options.gate == "always"
        ratio = self.options.cost_ratio
        self._cost = ratio if ratio is not None else self.costs.ratio or COST
        best, self._rate = 0, 0.0
        passing = expected = 1.0  # a^k and E(k)
        for k in range(MOST_DRAFTED + 1):
            asked = 1.0 if always else 1.0 - (1.0 - self.unsure.value) ** k
            if k > 0 or lossless:
                rate = ((1.0 - asked) * k + asked * expected) / (self._cost * (k + ROUND) + asked)
                if rate > self._rate:
                    best, self._rate = k, rate
            passing *= self.passes.value
            expected += passing
        if best == 0:
            self.passes.fade()
            self.probability.fade()
        return best

    def stop(self, judge: Judge) -> Stop | None:
        """The gate's own, and whether one more token is worth its time if the block is to be verified."""

        own = judge.stop is not None

        def ends(scores: torch.Tensor, id_: int) -> bool:
            unsure = judge.look(scores, id_)
            if own and unsure:
                return True
            return judge.escalates and self.enough([token.probability for token in judge.evidence])

        return ends

    def enough(self, probabilities: Sequence[float]) -> bool:
        """Whether one more token behind those of so many probabilities would cost more than it gains."""
        a, level = self.passes.value, self.probability.value
        chance = prod(min(1.0, p * a / level) for p in probabilities)
        return chance * a < self._cost * self._rate

    def kept(self, block: Sequence[TokenEvidence]) -> None:
        """Takes in tokens that the gate was sure of."""
        for _ in block:
            self.unsure.add(0.0)

    def verified(self, block: Sequence[TokenEvidence], accepted: int) -> None:
        """Takes in the judged tokens: the accepted ones, and the first rejected one."""
        for index, token in enumerate(block[: accepted + 1]):
            self.passes.add(float(index < accepted))
            self.probability.add(token.probability)
        for index in range(len(block)):  # one of them made the gate unsure, and the order hardly matters
            self.unsure.add(float(index == len(block) - 1))

    def drafted(self, before: ModelWork, after: ModelWork) -> None:
        """Takes in the cost of the block's steps."""
        self.costs.drafted(before, after)

    def took(self, ms: float) -> None:
        """Takes in the cost of a verification."""
        self.costs.verified(ms)


def block_length(options: DecodingOptions, costs: Costs) -> BlockLength:
    """How far the runs with these options draft."""
    if options.k != "auto":
        return FixedLength(options.k)
    return AdaptiveLength(options, costs) if options.mode in ("hybrid", "lossless") else FixedLength(ALONE)
