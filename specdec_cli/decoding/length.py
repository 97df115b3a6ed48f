"""How far to draft (`-k auto`), and how many tokens to guess: as far as it pays.

One rule for both: another token pays while the chance that it stands, with all before it, is at least its cost in
tokens. Chances and costs are running means of measurements (`costs`).

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

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Final

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.costs import COST, Costs, Mean

if TYPE_CHECKING:
    from specdec_cli.decoding.block import Draft, Verdict
    from specdec_cli.decoding.gate import GateState

MOST_DRAFTED: Final = 16  # tokens of a block with `k: auto`
MOST_DEFERRED: Final = 64  # tokens of a deferred draft: what the schema allows a block, and a server a draft
PER_TOKEN: Final = 4  # tokens that deferred drafts may spend on each written one
SOLO_BLOCK: Final = 4  # tokens of a block that is not verified, or that the cloud writes while the edge drafts nothing
CLOUD_CHUNK: Final = 16  # tokens that a cloud without an edge writes at a time: more would delay the view
ACCEPTANCE: Final = 0.7  # the start of a, for pairs that agree less than the mini pair (0.98 on its six samples)
ROUND: Final = 0.1  # o: measured on the mini pair, whose steps are the fastest that the loop has to keep up with


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


@dataclass(eq=False)
class BlockLength:
    """How many tokens a block of one clip has: a fixed number, or what pays (`adapts`)."""

    settings: DecodingConfig
    costs: Costs

    def __post_init__(self) -> None:
        self.adapts = self.settings.k == "auto" and self.settings.mode in ("hybrid", "lossless")
        self._lossless = self.settings.mode == "lossless"  # the cloud may write without a draft
        self._acceptance = Mean(ACCEPTANCE)  # accepted tokens per verified one, the first rejected one included
        self._trust = Mean(1.0)  # accepted tokens, per token that is accepted by the edge's own probabilities
        self._cost = COST  # of a drafted token, in tokens
        self._prefilled = False  # whether the edge has read the clip
        self._written = 0  # tokens of verified blocks
        self._drafted = 0  # tokens so far, rejected ones included

    def next(self, written: int, *, whole: bool, cloud_writes: bool) -> int:
        """Most tokens of the next block, after `written` tokens of text; 0: the cloud writes it alone.

        `whole`: the block is a deferred draft. Where no cloud is left that writes, it has at least one token.
        """
        size = most_deferred(self._drafted, written) if whole else self.most()
        if not cloud_writes:
            size = max(size, 1)
        return min(size, self.settings.max_new_tokens - written)

    def run_on(self, draft: Draft, written: int, *, alone: bool) -> int:
        """Most tokens that the cloud writes after its own one: more without a draft, and most if it writes `alone`."""
        most = self.settings.run_on
        if not draft.ids:
            most = (CLOUD_CHUNK if alone else SOLO_BLOCK) - 1
        return min(most, self.settings.max_new_tokens - written - 1)

    def most(self) -> int:
        """Most tokens of the next block; 0: the cloud writes it alone. What does not pay fades with each call."""
        if not self.adapts:
            return SOLO_BLOCK if self.settings.k == "auto" else self.settings.k
        a, c = self._acceptance.value, self.settings.cost_ratio or self.costs.ratio
        expected = accumulate(a**k for k in range(MOST_DRAFTED + 1))
        rates = [tokens / (c * (k + ROUND) + 1) for k, tokens in enumerate(expected)]
        best = max(range(1, len(rates)), key=rates.__getitem__)
        self._cost = c * rates[best]
        if not self._lossless:
            return MOST_DRAFTED
        alone = self._alone
        if self._with_prefill(rates[best]) > alone:
            self.costs.alone.fade()
            return best
        self._cost = c * alone
        self._acceptance.fade()
        return 0

    @property
    def _alone(self) -> float:
        """Tokens that the cloud writes in a forward without a draft."""
        guesses = self.settings.guess_tokens > 0 and self.settings.cost_ratio is None
        return self.costs.alone.value if guesses else 1.0

    def _with_prefill(self, rate: float) -> float:
        """The rate of drafting, in tokens a verification, with the edge's prefill if that is still to come."""
        if self._prefilled or self.settings.cost_ratio is not None:
            return rate
        left = max(self.costs.length.value - self._written, 1.0)
        return left / (left / rate + self.costs.prefill)

    def enough(self, state: GateState) -> bool:
        """Whether one more token of a block that escalates would cost more than it gains."""
        believed = self._trust.value * self._acceptance.value
        return state.escalates and believed * prod(token.probability for token in state.evidence) < self._cost

    def add_draft(self, draft: Draft) -> None:
        """Counts drafted tokens."""
        self._drafted += len(draft.ids)

    def add_verdict(self, draft: Draft, verdict: Verdict) -> None:
        """Records how many tokens of a block were accepted."""
        if not self.adapts:
            return
        self._written += verdict.accepted + 1 + len(verdict.run_on)
        if not draft.ids:
            return
        self._prefilled = True
        verified = draft.gate_state.evidence[: verdict.accepted + 1]  # the accepted tokens, and the first rejected one
        self._acceptance.add(verdict.accepted, len(verified))
        self._trust.add(verdict.accepted, sum(accumulate((token.probability for token in verified), mul)))
