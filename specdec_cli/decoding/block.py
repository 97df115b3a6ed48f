"""A block on its way through the loop: a draft, what it adds to the text, and its record. Loads no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from specdec_cli.decoding.accept import Verdict
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.types import Alternatives, Candidates, Decider, Reason, Round, Source

if TYPE_CHECKING:
    import torch

_BOUNDS_DIFFER: Final = 0.01  # nats, from which on both bounds of an entropy are reported

Enough = Callable[[GateState], bool]
"""Whether a block ends with the token that the gate read last."""

Token = tuple[int, Source, Alternatives]
"""A token that a round adds, where it comes from, and the likeliest at its place."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens."""

    ids: tuple[int, ...] = ()  # none where the cloud is to generate without a draft
    logits: torch.Tensor | None = None  # [m, vocab] processed logits that each was chosen by
    gate: GateState = field(default_factory=lambda: Gate("never").open(0))  # what it has read of them
    reason: Reason | None = None  # why the block should be verified; None: it is kept
    ms: float = 0.0  # time spent drafting, without prefill
    hidden_ms: float = 0.0  # time that drafting these tokens took while an earlier block was being verified
    likeliest: tuple[Candidates, ...] = ()  # at each, where a server named them and no logits are at hand

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        assert self.logits is not None
        return self.logits.softmax(dim=-1)

    def top(self, count: int) -> tuple[Candidates, ...]:
        """The `count` likeliest tokens at each drafted one, where they are known."""
        if self.logits is None:
            return self.likeliest if count else ()
        from specdec_cli.decoding.scores import likeliest

        return likeliest(self.logits, count)


def outcome(draft: Draft, verdict: Verdict | None, by: Decider, top_n: int) -> list[Token]:
    """The tokens that a round adds before stop rules. `by` drafted; the `top_n` likeliest of each are named."""
    ids, sources, top = draft.ids, list[Source]([by] * len(draft.ids)), list[Alternatives]()
    drafted = len(ids)  # places that the draft has scores for
    if verdict is not None:
        accepted = verdict.accepted
        own: Source = "cloud" if not draft.ids else "bonus" if accepted == len(draft.ids) else "corrected"
        ids = (*draft.ids[:accepted], verdict.token, *verdict.more)
        sources = ["accepted"] * accepted
        sources.append(own)
        sources.extend("cloud" for _ in verdict.more)
        top, drafted = [("cloud", row) for row in verdict.likeliest or ()], accepted + 1
    if not top:  # a cloud elsewhere may name none: at drafted positions, those of the drafting model stand in
        top = [(by, row) for row in draft.top(top_n)[:drafted]]
    unknown: Alternatives = ("cloud", ())
    return list(zip(ids, sources, chain(top, repeat(unknown)), strict=False))


def round_of(
    index: int,
    draft: Draft,
    verdict: Verdict | None,
    tokens: Sequence[Token],
    *,
    keeps_alternatives: bool,
    hidden_ms: float | None,
    thrown_away: int,
) -> Round:
    """The record of a round that added `tokens`, and whose draft was kept (`verdict` None) or verified."""
    gate = draft.gate
    _, entropy, margin, logprob, candidates, _, least = zip(*gate.evidence, strict=True) if gate.evidence else ((),) * 7
    found = verdict or Verdict(len(draft.ids), token=-1)  # without one, all is kept
    bounded = any(low is not None and high - low > _BOUNDS_DIFFER for low, high in zip(least, entropy, strict=True))
    committed_ids, source, alternatives = zip(*tokens, strict=True)
    return Round(
        index=index,
        draft_ids=draft.ids,
        entropy=entropy,
        max_entropy=max(entropy, default=None),
        least_entropy=least if bounded else None,
        gate_values=tuple(gate.values),
        gate_value=gate.block_value,
        margin=margin,
        logprob=logprob,
        candidates=candidates,
        escalated=verdict is not None and draft.reason is not None,
        reason=None if verdict is None else draft.reason,
        accepted=found.accepted,
        committed_ids=committed_ids,
        source=source,
        draft_ms=draft.ms,
        verify_ms=None if verdict is None else verdict.ms,
        network_ms=found.network_ms,
        hidden_ms=hidden_ms,
        thrown_away=thrown_away,
        near_ties=found.near_ties,
        bytes_up=found.bytes_up,
        bytes_down=found.bytes_down,
        alternatives=alternatives if keeps_alternatives else (),
        waking=gate.waking,
    )
