"""What pays: how far to draft (`-k auto`), and how many tokens to guess.

One rule for both: another token pays while the chance that it stands, with all before it, is at least its cost in
tokens. What a model or a memory believes of that chance is brought to the level of what has come true (`Share`).

A guessed token costs a row of a forward, measured in forwards (`GuessCosts`). A drafted one costs c of a verification,
round trip included, in which tokens at the best rate R would be c R. With a chance a that a drafted token passes, a
verified block of k tokens gives E(k) = 1 + a + ... + a^k on average (Leviathan et al. 2023, eq. 1), so that

    R = max over k of E(k) / (c (k + o) + 1),

o being what the loop itself takes for a round. In lossless mode k may be 0: then the cloud writes a few tokens alone.
In hybrid mode the gate ends a block. Nothing of another clip enters but the times, and with `decoding.cost_ratio` given
nothing at all.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, Literal

from specdec_cli.config.schema import DecodingConfig

if TYPE_CHECKING:
    from specdec_cli.decoding.accept import Verdict
    from specdec_cli.decoding.block import Draft
    from specdec_cli.decoding.gate import GateState

MOST_DRAFTED: Final = 16  # tokens per round, where the number is not given
MOST_DEFERRED: Final = 64  # tokens of a deferred draft: what the schema allows a block, and a server a draft
SOLO_BLOCK: Final = 4  # tokens of a block where nothing is verified, and of the cloud's where nothing is drafted
PASSES: Final = 0.7  # what a begins at
COST: Final = 0.2  # c while nothing has been measured
ROUND: Final = 0.1  # o: measured on the mini pair, whose steps are the fastest that the loop has to keep up with
_ROW: Final = 0.1  # cost of a guess while nothing has been measured
_DECAY: Final = 0.9  # of what is known, whenever more comes to be known
_IDLE: Final = 0.98  # of what is known, whenever nothing was tried: then it is tried again
_WINDOW: Final = 16  # measurements that a median is taken of


def most_drafted(settings: DecodingConfig) -> int:
    """Tokens drafted per round at most."""
    if settings.defers:
        return MOST_DEFERRED
    return MOST_DRAFTED if settings.k == "auto" else settings.k


def capacity(settings: DecodingConfig) -> int:
    """Most tokens that follow a prompt at any time: the text, a block after it and the cloud's own token."""
    return settings.max_new_tokens + most_drafted(settings) + 1


class Share:
    """How much of what was expected has come true; begins at `start`, and older cases count less."""

    def __init__(self, start: float) -> None:
        self._start, self._stood, self._expected = start, 0.0, 0.0

    @property
    def level(self) -> float:
        return (self._start + self._stood) / (1.0 + self._expected)

    def learn(self, expected: float = 0.0, stood: float = 0.0, decay: float = _DECAY) -> None:
        """Takes in so many tokens that were expected to stand, and how many did."""
        self._stood, self._expected = self._stood * decay + stood, self._expected * decay + expected


class _Times(defaultdict[str, deque[float]]):
    """The latest measurements of each kind, ms."""

    def __init__(self) -> None:
        super().__init__(lambda: deque(maxlen=_WINDOW))


class GuessCosts:
    """What guesses cost and gain on one model, measured over all clips."""

    def __init__(self) -> None:
        self._ms, self._trust = _Times(), Share(1.0)

    def took(self, guessed: int, ms: float) -> None:
        """Takes in a forward of one token and so many guessed ones."""
        if guessed == 0:
            self._ms["alone"].append(ms)
        elif alone := self._ms["alone"]:
            self._ms["guess"].append((ms - median(alone)) / guessed)

    def learn(self, expected: float, stood: int) -> None:
        """Takes in how many guessed tokens were expected to stand, and how many did."""
        self._trust.learn(expected, stood)

    def worth(self, chances: Sequence[float]) -> int:
        """How many of the guessed tokens pay, whose chances to stand fall from each to the next."""
        alone, guess = self._ms["alone"], self._ms["guess"]
        cost = median(guess) / median(alone) if guess and alone else _ROW
        count = sum(chance * self._trust.level >= cost for chance in chances)
        if chances and not count and alone:  # what is known wears off, so that it is tried again
            self._trust.learn(decay=_IDLE)
            guess.append(_ROW * median(alone))
        return count


class Costs:
    """What drafting, verifying and guessing take on this machine, shared by all clips."""

    def __init__(self) -> None:
        self._ms = _Times()
        self.guesses: defaultdict[str, GuessCosts] = defaultdict(GuessCosts)  # by model

    def took(self, what: Literal["token", "verification"], ms: float) -> None:
        """Takes in the time of a drafted token, or of a forward of the cloud that verifies, or writes on."""
        self._ms[what].append(ms)

    @property
    def ratio(self) -> float | None:
        """A drafted token in units of a verification; None before both have been measured."""
        whole = median(self._ms["verification"] or [0.0])
        # a mean: a token that was guessed takes no time, and the one before it that of them all
        return fmean(self._ms["token"]) / whole if self._ms["token"] and whole > 0 else None


@dataclass(eq=False)
class BlockLength:
    """How many tokens a block of one clip has: a fixed number, or what pays (`adapts`)."""

    settings: DecodingConfig
    costs: Costs

    def __post_init__(self) -> None:
        self.adapts = self.settings.k == "auto" and self.settings.mode in ("hybrid", "lossless")
        self._lossless = self.settings.mode == "lossless"  # where the cloud may write without a draft
        self._passes, self._trust, self._cost = Share(PASSES), Share(1.0), COST

    def most(self) -> int:
        """Tokens of the next block at most."""
        if not self.adapts:
            return SOLO_BLOCK if self.settings.k == "auto" else self.settings.k
        a, c = self._passes.level, self.settings.cost_ratio or self.costs.ratio or COST
        expected = accumulate(a**k for k in range(MOST_DRAFTED + 1))
        rates = [tokens / (c * (k + ROUND) + 1) for k, tokens in enumerate(expected)]
        rates[0] = float(self._lossless)
        best = max(range(len(rates)), key=rates.__getitem__)
        self._cost = c * rates[best]
        if best == 0:
            self._passes.learn(decay=_IDLE)
        return best if self._lossless else MOST_DRAFTED

    def enough(self, state: GateState) -> bool:
        """Whether one more token would cost more than it gains, in a block that is to be verified."""
        believed = self._trust.level * self._passes.level
        return state.escalates and believed * prod(token.probability for token in state.evidence) < self._cost

    def learn(self, draft: Draft, verdict: Verdict | None) -> None:
        """Takes in what became of a block."""
        if verdict is None or not draft.ids or not self.adapts:
            return
        verified = draft.gate.evidence[: verdict.accepted + 1]  # the accepted tokens, and the first rejected one
        self._passes.learn(len(verified), verdict.accepted)
        self._trust.learn(sum(accumulate((token.probability for token in verified), mul)), verdict.accepted)
