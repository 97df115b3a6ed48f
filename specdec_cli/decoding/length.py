"""How far to draft (`-k auto`), and how many tokens to guess: as far as it pays.

One rule for both: another token pays while the chance that it stands, with all before it, is at least its cost in
tokens. Chances and costs are running means (`Mean`) of measurements. What does not pay is not tried. Meanwhile its
means fade towards their start, until it is tried again.

A guessed token costs a row of a forward, measured in forwards (`GuessCosts`). A drafted token costs c verifications,
round trip included; in that time, c R tokens are written at the best rate R. With a chance a that a drafted token is
accepted, a verified block of k tokens gives E(k) = 1 + a + ... + a^k on average (Leviathan et al. 2023, eq. 1), so that

    R = max over k of E(k) / (c (k + o) + 1),

where o is the loop's own time for a round, in drafted tokens. In hybrid mode the gate ends a block.

In lossless mode k may be 0: then the cloud writes a few tokens alone, at its own rate in tokens a forward, which
guesses raise above 1. Until the edge has read the clip, drafting also costs the edge's prefill, of p verifications:
over the n tokens that are still expected, the rate is n / (n / R + p). Of other clips only times, the cloud's own rate
and the length of captions count; with `decoding.cost_ratio` given, nothing does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Final, Literal

from specdec_cli.config.decoding_schema import DecodingConfig

if TYPE_CHECKING:
    from specdec_cli.decoding.block import Draft, Verdict
    from specdec_cli.decoding.gate import GateState

MOST_DRAFTED: Final = 16  # tokens of a block with `k: auto`
MOST_DEFERRED: Final = 64  # tokens of a deferred draft: what the schema allows a block, and a server a draft
PER_TOKEN: Final = 4  # tokens that deferred drafts may spend on each written one
SOLO_BLOCK: Final = 4  # tokens of a block that is not verified, or that the cloud writes while the edge drafts nothing
CLOUD_CHUNK: Final = 16  # tokens that a cloud without an edge writes at a time: more would delay the view
PASSES: Final = 0.7  # the start of a, for pairs that agree less than the mini pair (0.98 on its six samples)
ALONE: Final = 2.0  # start of the cloud's tokens a forward, with guesses: more than it writes, so that it is tried
COST: Final = 0.2  # c before anything is measured: 0.20 for the mini pair on one CPU thread
ROUND: Final = 0.1  # o: measured on the mini pair, whose steps are the fastest that the loop has to keep up with
ROW: Final = 0.1  # cost of a guess before anything is measured, in forwards
_DECAY: Final = 0.9  # older values are multiplied by this whenever one is added: the last ten or so count
_HICCUP: Final = 3.0  # a cost counts as so many times the mean at most
# Everything recorded is multiplied by this for each round in which it was not tried: half is left after 34 rounds.
# So a hopeless edge costs a lossless caption less than 3% (tests/decoding/test_adaptive.py).
_IDLE: Final = 0.98


def most_drafted(settings: DecodingConfig) -> int:
    """Tokens drafted per round at most."""
    if settings.defers:
        return MOST_DEFERRED
    return MOST_DRAFTED if settings.k == "auto" else settings.k


def capacity(settings: DecodingConfig) -> int:
    """Most tokens that follow a prompt at any time: the text, a block after it and the cloud's own token."""
    return settings.max_new_tokens + most_drafted(settings) + 1


def most_deferred(drafted: int, written: int) -> int:
    """Most tokens of the next deferred draft, after `drafted` drafted tokens and `written` written ones.

    If the cloud rejects nearly everything, drafting the whole rest each time would take the square of its length. So
    all drafts after a first one have at most `PER_TOKEN` tokens for each written one.
    """
    return min(MOST_DEFERRED, max(SOLO_BLOCK, MOST_DEFERRED + PER_TOKEN * written - drafted))


class Mean:
    """A running mean in which older values count less. `start` counts as one value; None: there is no such value."""

    def __init__(self, start: float | None = None) -> None:
        self._start = start
        self._sum = self._count = 0.0

    @property
    def known(self) -> bool:
        """Whether a value was recorded."""
        return self._count > 0

    @property
    def value(self) -> float:
        """The mean; 0 before the first value, if there is no start."""
        if self._start is None:
            return self._sum / self._count if self.known else 0.0
        return (self._start + self._sum) / (1.0 + self._count)

    def add(self, total: float, count: float = 1.0) -> None:
        """Records `count` values by their sum."""
        self.fade(_DECAY)
        self._sum += total
        self._count += count

    def add_cost(self, value: float) -> None:
        """Records a measured cost, as `_HICCUP` times the mean at most: more would be a hiccup of the machine."""
        self.add(min(value, _HICCUP * self.value) if self.value > 0 else value)

    def fade(self, by: float = _IDLE) -> None:
        """Multiplies the weight of everything recorded."""
        self._sum *= by
        self._count *= by


class GuessCosts:
    """The cost and the gain of guesses on one model, measured over all clips."""

    def __init__(self) -> None:
        self._alone = Mean()  # ms of a forward without guesses
        self._row = Mean(ROW)  # cost of a guess, in forwards
        self._trust = Mean(1.0)  # guesses that stood, per guess that was expected to

    def record(self, guessed: int, ms: float) -> None:
        """Records the time of a forward of one token and `guessed` guessed ones."""
        if guessed == 0:
            self._alone.add_cost(ms)
        elif self._alone.known:
            self._row.add_cost((ms / self._alone.value - 1.0) / guessed)

    def learn(self, expected: float, stood: int) -> None:
        """Records how many guessed tokens were expected to stand, and how many did."""
        self._trust.add(stood, expected)

    def worth(self, chances: Sequence[float]) -> int:
        """How many guessed tokens are worth scoring. `chances` must not increase."""
        count = sum(chance * self._trust.value >= self._row.value for chance in chances)
        if chances and not count:
            self._trust.fade()
            self._row.fade()
        return count


class Costs:
    """The times of drafting, verifying and guessing on this machine, shared by all clips."""

    def __init__(self) -> None:
        self._ms: dict[str, Mean] = {"token": Mean(), "verification": Mean(), "reading": Mean()}
        self.alone = Mean(ALONE)  # tokens that the cloud writes in a forward without a draft
        self.length = Mean()  # tokens of a caption
        self.guesses: defaultdict[str, GuessCosts] = defaultdict(GuessCosts)  # by model

    def record(self, what: Literal["token", "verification", "reading"], ms: float) -> None:
        """Records the time of a drafted token, of a forward of the cloud, or of reading a clip with the edge."""
        mean = self._ms[what]
        if what == "token":  # guessed tokens take no time, but the one before them takes that of all: no hiccup
            mean.add(ms)
        else:
            mean.add_cost(ms)

    @property
    def ratio(self) -> float:
        """The time of a drafted token in verifications; `COST` before both have been measured."""
        token, verification = self._ms["token"], self._ms["verification"]
        return token.value / verification.value if token.known and verification.value > 0 else COST

    @property
    def reading(self) -> float:
        """The time of the edge's prefill in verifications; 0 before both have been measured."""
        verification = self._ms["verification"].value
        return self._ms["reading"].value / verification if verification > 0 else 0.0


@dataclass(eq=False)
class BlockLength:
    """How many tokens a block of one clip has: a fixed number, or what pays (`adapts`)."""

    settings: DecodingConfig
    costs: Costs

    def __post_init__(self) -> None:
        self.adapts = self.settings.k == "auto" and self.settings.mode in ("hybrid", "lossless")
        self._lossless = self.settings.mode == "lossless"  # the cloud may write without a draft
        self._passes = Mean(PASSES)  # accepted tokens per verified one, the first rejected one included
        self._trust = Mean(1.0)  # accepted tokens, per token that is accepted by the edge's own probabilities
        self._cost = COST  # of a drafted token, in tokens
        self._read = False  # whether the edge has read the clip
        self._written = 0  # tokens of verified blocks

    def most(self) -> int:
        """Most tokens of the next block; 0: the cloud writes it alone. What does not pay fades with each call."""
        if not self.adapts:
            return SOLO_BLOCK if self.settings.k == "auto" else self.settings.k
        a, c = self._passes.value, self.settings.cost_ratio or self.costs.ratio
        expected = accumulate(a**k for k in range(MOST_DRAFTED + 1))
        rates = [tokens / (c * (k + ROUND) + 1) for k, tokens in enumerate(expected)]
        best = max(range(1, len(rates)), key=rates.__getitem__)
        self._cost = c * rates[best]
        if not self._lossless:
            return MOST_DRAFTED
        alone = self._alone
        if self._with_reading(rates[best]) > alone:
            self.costs.alone.fade()
            return best
        self._cost = c * alone
        self._passes.fade()
        return 0

    @property
    def _alone(self) -> float:
        """Tokens that the cloud writes in a forward without a draft."""
        guesses = self.settings.guess_tokens > 0 and self.settings.cost_ratio is None
        return self.costs.alone.value if guesses else 1.0

    def _with_reading(self, rate: float) -> float:
        """The rate of drafting, in tokens a verification, with the edge's prefill if that is still to come."""
        if self._read or self.settings.cost_ratio is not None:
            return rate
        left = max(self.costs.length.value - self._written, 1.0)
        return left / (left / rate + self.costs.reading)

    def enough(self, state: GateState) -> bool:
        """Whether one more token of a block that escalates would cost more than it gains."""
        believed = self._trust.value * self._passes.value
        return state.escalates and believed * prod(token.probability for token in state.evidence) < self._cost

    def learn(self, draft: Draft, verdict: Verdict | None) -> None:
        """Records how many tokens of a block were accepted."""
        if verdict is None or not self.adapts:
            return
        self._written += verdict.accepted + 1 + len(verdict.run_on)
        if not draft.ids:
            return
        self._read = True
        verified = draft.gate_state.evidence[: verdict.accepted + 1]  # the accepted tokens, and the first rejected one
        self._passes.add(verdict.accepted, len(verified))
        self._trust.add(verdict.accepted, sum(accumulate((token.probability for token in verified), mul)))
