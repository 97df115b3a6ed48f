"""The acceptance rules that can be applied to what a vLLM server tells: the likeliest few tokens of each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_cli.cloud.vllm_wire import MOST_CANDIDATES, Position, Reply
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.types import VLLM_HIGHEST_RANK, VLLM_RULES

_RESERVE = 1  # likeliest tokens beyond the rule's own need, in case one may not be said


@dataclass(frozen=True, slots=True)
class Judged:
    """How much of a draft is kept, and the cloud's own tokens behind it, at least one."""

    accepted: int
    tokens: tuple[int, ...]


class VllmRules:
    """One clip's rule and vocabulary.

    Args:
        options: the run's settings.
        banned: ids that may not be said.
        vocab_size: nor these and those behind.
    """

    def __init__(self, options: DecodingOptions, banned: Sequence[int], vocab_size: int) -> None:
        self._options = options
        self._banned = frozenset(banned)
        self._vocab_size = vocab_size

    @property
    def candidates(self) -> int:
        """Likeliest tokens that are usually enough."""
        need = self._options.rank if self._options.rule == "rank" else 1
        return min(need + _RESERVE, MOST_CANDIDATES)

    def judge(self, draft: Sequence[int], reply: Reply, *, at_most: bool = False) -> Judged | None:
        """The rule applied to a block of m tokens; None if the reply does not tell enough.

        Args:
            draft: the block.
            reply: to a question about it.
            at_most: no reply tells more; a drafted token whose rank it does not tell is not kept.
        """
        for index, (token, position) in enumerate(zip(draft, reply.drafted, strict=True)):
            keeps = self._keeps(token, position)
            if keeps is None and not at_most:
                return None
            if not keeps:
                best = position.best(self._banned, self._vocab_size)
                return None if best is None else Judged(index, (best,))
        tokens: list[int] = []
        for token, position in zip(reply.generated, reply.behind, strict=True):
            best = position.best(self._banned, self._vocab_size)
            if best is None:
                break
            tokens.append(best)
            if best != token:
                break  # what was generated behind follows a token that may not be said
        return Judged(len(draft), tuple(tokens)) if tokens else None

    def _keeps(self, token: int, position: Position) -> bool | None:
        """Whether a drafted token passes on its own; None if that cannot be told."""
        if self._options.rule == "greedy":
            best = position.best(self._banned, self._vocab_size)
            return None if best is None else best == token
        assert position.own is not None
        above = sum(
            logprob > position.own
            for id_, logprob in position.candidates.items()
            if id_ < self._vocab_size and id_ not in self._banned
        )
        if above >= self._options.rank:
            return False
        return True if position.complete else None


def unserved(options: DecodingOptions) -> str | None:
    """Why a vLLM server cannot judge by these settings, as the end of a sentence; None if it can."""
    if options.sampling:
        return f"temperature {options.temperature:g} needs whole distributions"
    if options.rule not in VLLM_RULES:
        return f"acceptance {options.rule!r} needs more than the likeliest tokens"
    if options.rule == "rank" and options.rank > VLLM_HIGHEST_RANK:
        return f"rank {options.rank} may need more than the likeliest {MOST_CANDIDATES} tokens"
    for name, off in (("repetition_penalty", 1.0), ("no_repeat_ngram", 0), ("min_new_tokens", 0)):
        if getattr(options, name) != off:
            return f"{name} {getattr(options, name):g} changes the scores of all tokens"
    return None
