"""The gate: is the edge sure enough of its block, or is the cloud asked?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from specdec_cli.decoding.draft import Draft, entropies
from specdec_cli.types import DEFAULT_THRESHOLDS, GateName, Reason


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate says of a block of m tokens.

    Attributes:
        escalate: ask the cloud.
        reason: why, None if it is not asked.
        entropy: nats, per token.
        score: the gate's own figure per token, in its own unit.
    """

    escalate: bool
    reason: Reason | None
    entropy: tuple[float, ...]
    score: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A threshold on one figure per drafted token; a single unsure token escalates the block.

    Attributes:
        name: which figure: `entropy` (nats, escalates at or above the threshold), `margin` (probability of the
            likeliest token minus that of the second, at or below), `logprob` (natural log of the drafted token's
            probability, at or below); `always` and `never` decide without one.
        threshold: in the unit of the figure; unused by `always` and `never`.
    """

    name: GateName
    threshold: float = 0.0

    def decide(self, draft: Draft) -> Decision:
        """Judges a block by the drafting model's own distributions."""
        probabilities = draft.probabilities()
        entropy = entropies(probabilities)
        if self.name in ("always", "never"):
            score, escalate = entropy, self.name == "always"
        elif self.name == "entropy":
            score = entropy
            escalate = bool((score >= self.threshold).any())
        else:
            score = _FIGURES[self.name](draft, probabilities)
            escalate = bool((score <= self.threshold).any())
        reason: Reason | None = self.name if escalate and self.name != "never" else None
        return Decision(escalate, reason, tuple(entropy.tolist()), tuple(score.tolist()))


def make_gate(name: GateName, threshold: float | None = None) -> Gate:
    """A gate with its own default threshold where none is given."""
    return Gate(name, DEFAULT_THRESHOLDS.get(name, 0.0) if threshold is None else threshold)


def _margin(_draft: Draft, probabilities: torch.Tensor) -> torch.Tensor:
    top = probabilities.topk(2, dim=-1).values
    return top[:, 0] - top[:, 1]


def _logprob(draft: Draft, probabilities: torch.Tensor) -> torch.Tensor:
    ids = torch.tensor(draft.ids, device=probabilities.device)
    return probabilities.gather(1, ids[:, None])[:, 0].log()


_FIGURES: Final[dict[GateName, Callable[[Draft, torch.Tensor], torch.Tensor]]] = {
    "margin": _margin,
    "logprob": _logprob,
}
