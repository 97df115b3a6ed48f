"""How far to draft: a fixed number of tokens, the rest of the caption, or as far as it pays (`-k auto`).

Another drafted token pays while the chance that it is accepted, with all before it, is at least its cost in tokens. A
drafted token costs c verifications (`decoding.cost_ratio`), in which time c R tokens are written at the best rate R.
With a chance a that a drafted token is accepted, a verified block of k tokens gives E(k) = 1 + a + ... + a^k on average
(Leviathan et al. 2023, eq. 1), so that R = max over k of E(k) / (c k + 1).

The chance a is the share of the clip's verified tokens that were accepted. In hybrid mode the gate ends a block. In
lossless mode k may be 0: then the cloud writes a few tokens alone, one a forward. Nothing depends on the clock or on
other clips.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Final

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import Draft, Verdict
from specdec_cli.decoding.gate import GateState

MOST_DRAFTED: Final = 16  # tokens of a block with `k: auto`
MOST_DEFERRED: Final = 64  # tokens of a deferred draft: what the schema allows a block, and a server a draft
PER_TOKEN: Final = 4  # tokens that deferred drafts may spend on each written one
SOLO_BLOCK: Final = 4  # tokens of a block that is not verified, or that the cloud writes while the edge drafts nothing
CLOUD_CHUNK: Final = 16  # tokens that a cloud without an edge writes at a time: more would delay the view
ACCEPTANCE: Final = 0.7  # the start of a, for pairs that agree less than the mini pair (0.98 on its six samples)


def most_drafted(settings: DecodingConfig) -> int:
    """Tokens drafted per round at most."""
    if settings.defers:
        return MOST_DEFERRED
    return settings.k if isinstance(settings.k, int) else MOST_DRAFTED


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
    """How many tokens a block of one clip has: a fixed number, or what pays."""

    settings: DecodingConfig
    _drafted: int = field(default=0, init=False)  # tokens so far, rejected ones included
    _verified: int = field(default=0, init=False)  # of these, tokens up to the first rejected one of each block
    _accepted: int = field(default=0, init=False)  # of these, those that were accepted

    def next(self, written: int, *, whole: bool, cloud_writes: bool) -> int:
        """Most tokens of the next block, after `written` tokens of text; 0: the cloud writes it alone.

        `whole`: the block is a deferred draft. Where no cloud is left that writes, it has at least one token.
        """
        size = most_deferred(self._drafted, written) if whole else self.most()
        if not cloud_writes:
            size = max(size, 1)
        return min(size, self.settings.max_new_tokens - written)

    def written_alone(self, written: int, *, edge_left: bool) -> int:
        """Tokens that the cloud writes after its own one if nothing was drafted, after `written` tokens of text."""
        most = SOLO_BLOCK if edge_left else CLOUD_CHUNK
        return min(most, self.settings.max_new_tokens - written) - 1

    def most(self) -> int:
        """Most tokens of the next block; 0: the cloud writes it alone."""
        if not self.settings.adapts:
            return self.settings.k if isinstance(self.settings.k, int) else SOLO_BLOCK
        if self.settings.mode == "lossless" and self._best_rate <= 1.0:
            return 0
        return MOST_DRAFTED

    def enough(self, state: GateState) -> bool:
        """Whether one more token of a block that escalates would cost more than it gains."""
        chance = self._acceptance * prod(token.probability for token in state.evidence)
        return state.escalates and chance < self.settings.cost_ratio * self._best_rate

    def add_draft(self, draft: Draft) -> None:
        """Counts drafted tokens."""
        self._drafted += len(draft.ids)

    def add_verdict(self, draft: Draft, verdict: Verdict) -> None:
        """Counts the tokens of a block that were verified, and those that were accepted."""
        self._verified += min(verdict.accepted + 1, len(draft.ids))
        self._accepted += verdict.accepted

    @property
    def _acceptance(self) -> float:
        return (ACCEPTANCE + self._accepted) / (1 + self._verified)

    @property
    def _best_rate(self) -> float:
        """Tokens that the best block with a draft gives in the time of a verification."""
        expected = accumulate(self._acceptance**k for k in range(MOST_DRAFTED + 1))
        cost = self.settings.cost_ratio
        return max(tokens / (cost * k + 1) for k, tokens in enumerate(expected) if k)
