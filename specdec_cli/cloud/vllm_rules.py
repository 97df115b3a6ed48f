"""The acceptance rules that can be applied to what a vLLM server gives: the likeliest few tokens of each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from specdec_cli.cloud.vllm_wire import MOST_CANDIDATES, Position, Scored
from specdec_cli.config import AcceptanceConfig, Config
from specdec_cli.decoding.scores import effective
from specdec_cli.models.processor import Processor
from specdec_cli.models.selftest import tie_tolerance
from specdec_cli.types import VLLM_HIGHEST_RANK, VLLM_RULES

TIE: Final = tie_tolerance(torch.bfloat16)
"""Gap of two log-probabilities that counts as a near tie.

A server gives neither its number format nor how far the scores of a position spread, so this is the tolerance of the
coarsest usual format alone, as for a spread of 1.
"""

_RESERVE: Final = 1  # likeliest tokens beyond the rule's own need, in case one is banned


@dataclass(frozen=True, slots=True)
class Judged:
    """How much of a draft is kept, the cloud's own tokens after it, at least one, and the near ties; None: unknown."""

    accepted: int
    tokens: tuple[int, ...]
    near_ties: int | None = None


@dataclass(frozen=True, slots=True)
class VllmRules:
    """One clip's rule and vocabulary.

    Attributes:
        acceptance: the rule, greedy or rank, and its bound.
        banned: ids that are never generated.
        vocab_size: nor these and those above.
    """

    acceptance: AcceptanceConfig
    banned: frozenset[int]
    vocab_size: int

    @property
    def candidates(self) -> int:
        """Likeliest tokens that are usually enough."""
        need = self.acceptance.rank if self.acceptance.rule == "rank" else 1
        return min(need + _RESERVE, MOST_CANDIDATES)

    def judge(self, draft: Sequence[int], scored: Scored, *, at_most: bool = False) -> Judged | None:
        """The rule applied to a block of m tokens; None if the answer does not hold enough.

        Args:
            draft: the block.
            scored: the answer to a question about it.
            at_most: no answer holds more; a drafted token whose rank it does not give is not kept.
        """
        ties: list[bool | None] = []
        for index, (token, position) in enumerate(zip(draft, scored.drafted, strict=True)):
            ties.append(self._tie(position))
            keeps = self._keeps(token, position)
            if keeps is None and not at_most:
                return None
            if not keeps:
                best = self._usable(position)
                return Judged(index, (best[0][0],), _count(ties)) if best else None
        tokens: list[int] = []
        for token, position in zip(scored.generated, scored.after, strict=True):
            best = self._usable(position)
            if not best:
                break
            tokens.append(best[0][0])
            if tokens[-1] != token:
                break  # what was generated after follows a banned token
        ties.append(self._tie(scored.after[0]))
        return Judged(len(draft), tuple(tokens), _count(ties)) if tokens else None

    def _usable(self, position: Position) -> list[tuple[int, float]]:
        """The candidates that are not banned, best first."""
        return [
            (id_, logprob)
            for id_, logprob in position.candidates.items()
            if id_ < self.vocab_size and id_ not in self.banned
        ]

    def _tie(self, position: Position) -> bool | None:
        """Whether the two best tokens are as good as equal; None if only one is known."""
        best = self._usable(position)
        return best[0][1] - best[1][1] <= TIE if len(best) > 1 else None

    def _keeps(self, token: int, position: Position) -> bool | None:
        """Whether a drafted token passes on its own; None if the answer does not show it."""
        usable = self._usable(position)
        if self.acceptance.rule != "rank":
            return usable[0][0] == token if usable else None
        assert position.own is not None
        if sum(logprob > position.own for _, logprob in usable) >= self.acceptance.rank:
            return False
        return True if position.complete else None


def _count(ties: Sequence[bool | None]) -> int | None:
    return None if None in ties else sum(map(bool, ties))


def unserved(config: Config, processor: Processor) -> str | None:
    """Why a vLLM server cannot judge by these settings, as the end of a sentence; None if it can."""
    settings, acceptance = effective(config.decoding, processor), config.acceptance
    if settings.sampling:
        return f"temperature {settings.temperature:g} needs whole distributions"
    if acceptance.rule not in (None, *VLLM_RULES):
        return f"acceptance {acceptance.rule!r} needs more than the likeliest tokens"
    if acceptance.rule == "rank" and acceptance.rank > VLLM_HIGHEST_RANK:
        return f"rank {acceptance.rank} may need more than the likeliest {MOST_CANDIDATES} tokens"
    for name, off in (("repetition_penalty", 1.0), ("no_repeat_ngram", 0), ("min_new_tokens", 0)):
        if getattr(settings, name) != off:
            suggested = ", as the checkpoint suggests," if getattr(config.decoding, name) is None else ""
            return f"{name} {getattr(settings, name):g}{suggested} changes the scores of all tokens"
    return None
