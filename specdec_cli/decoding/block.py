"""A block on its way through the loop. Importing this loads no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.gate import GateState
from specdec_cli.types import Candidates, Reason

if TYPE_CHECKING:
    import torch

Enough = Callable[[GateState], bool]
"""Whether a block ends with the token that the gate read last."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens, and what the gate finds."""

    ids: tuple[int, ...] = ()  # none where the cloud is to generate without a draft
    logits: torch.Tensor | None = None  # [m, vocab] processed logits that each was chosen by
    evidence: tuple[TokenEvidence, ...] = ()
    gate_values: tuple[float, ...] = ()  # the gate's figure of each token
    gate_value: float | None = None  # and of the block, which is compared with the threshold
    reason: Reason | None = None  # why the block should be verified; None: it is kept
    ms: float = 0.0  # time spent drafting, without prefill
    hidden_ms: float = 0.0  # time that drafting these tokens took while an earlier block was being verified
    waking: bool = False  # see `types.Round`
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
