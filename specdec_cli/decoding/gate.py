"""The gate: is the edge sure enough of its block, or is the block escalated to the cloud?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specdec_cli.decoding.evidence import Groups, TokenEvidence, evidence_of
from specdec_cli.errors import DecodingError
from specdec_cli.types import DEFAULT_THRESHOLDS, LOW_IS_UNSURE, TOKEN_GATES, GateName, Reason

if TYPE_CHECKING:
    import torch

    from specdec_cli.decoding.learned import Classifier


def crosses(gate: str, value: float, threshold: float) -> bool:
    """Whether a figure escalates its block; a random gate whose threshold is 0 escalates none."""
    if gate == "random":
        return value < threshold
    return value <= threshold if gate in LOW_IS_UNSURE else value >= threshold


class Gate:
    """A threshold on one figure per drafted token; a single unsure token escalates the block.

    Args:
        name: which figure of `TokenEvidence`, or `learned` (probability that the cloud would replace a token of the
            block up to this one); `random` escalates a share of the blocks, the baseline that a gate has to beat.
        threshold: in the unit of the figure; None: the gate's own. See `crosses` for its side.
        wake: the threshold of a block that would be the first of its clip to be verified; None: the same.
        stop_drafting: end a block with the first token that escalates it.
        classifier: of the learned gate; a DecodingError without.
        generator: of the random gate, which needs one that is not the one that tokens are drawn with.
        groups: of the gate class-entropy, which cannot read scores without; recorded evidence holds the figure itself.
    """

    def __init__(
        self,
        name: GateName,
        threshold: float | None = None,
        *,
        wake: float | None = None,
        stop_drafting: bool = False,
        classifier: Classifier | None = None,
        generator: torch.Generator | None = None,
        groups: Groups | None = None,
    ) -> None:
        if name == "learned" and classifier is None:
            raise DecodingError("the gate 'learned' has no weights", hint="Name their file in gate.file.")
        if name == "random" and generator is None:  # it would read entropies
            raise DecodingError("the gate 'random' has no generator")
        self.name = name
        self.groups = groups if name == "class-entropy" else None
        self.classifier = classifier if name == "learned" else None
        own = DEFAULT_THRESHOLDS.get(name, 0.0) if self.classifier is None else self.classifier.threshold
        self.threshold = own if threshold is None else threshold
        self.wake = self.threshold if wake is None else wake
        self._stops_drafting = stop_drafting and name in TOKEN_GATES
        self._generator = generator if name == "random" else None

    def open(self, start: int, *, waking: bool = False, whole: bool = False, ahead: bool = False) -> GateState:
        """Begins a block after `start` tokens of text; `whole`: drafted to its end."""
        draw = None  # what is drafted ahead may never become a block: no random generator may move
        if self._generator is not None and not ahead:
            import torch

            draw = float(torch.rand((), generator=self._generator, dtype=torch.float64))
        return GateState(self, start, draw, waking=waking, stops=self._stops_drafting and not whole)


class GateState:
    """The gate at work on one block, token by token, so that drafting can end (`stops`) at the first unsure one."""

    def __init__(self, gate: Gate, start: int, draw: float | None, *, waking: bool, stops: bool) -> None:
        self.gate, self._start, self._draw, self.waking, self.stops = gate, start, draw, waking, stops
        self._classifier = gate.classifier and (gate.classifier.waking if waking else gate.classifier)
        self.evidence: list[TokenEvidence] = []  # of each token so far
        self.values: list[float] = []  # the gate's figure of each token by itself
        self.block_value: float | None = None  # of the block so far: what is compared with the threshold

    def add(self, token: TokenEvidence) -> bool:
        """Adds the block's next token; returns whether it escalates the block."""
        self.evidence.append(token)
        self.values.append(value := self._value(token))
        if self.block_value is None:
            self.block_value = value
        elif self._classifier is not None:
            self.block_value = self._classifier.combined(self.block_value, value)
        else:
            self.block_value = (min if self.gate.name in LOW_IS_UNSURE else max)(self.block_value, value)
        return self.escalates

    def _value(self, token: TokenEvidence) -> float:
        if self._draw is not None:
            return self._draw
        if self._classifier is not None:
            return self._classifier.token_probability(self.evidence, len(self.evidence) - 1, self._start)
        own = {"margin": token.margin, "logprob": token.logprob, "class-entropy": token.class_entropy}
        return own.get(self.gate.name, token.entropy)

    def read(self, scores: torch.Tensor, ids: Sequence[int]) -> bool:
        """Adds drafted tokens by their processed scores [m, vocab]; returns whether they escalate the block."""
        if self.gate.name == "class-entropy" and self.gate.groups is None:
            raise DecodingError("the gate 'class-entropy' has no groups of tokens")
        return [self.add(token) for token in evidence_of(scores, ids, self.gate.groups)][-1]

    @property
    def escalates(self) -> bool:
        """Whether the block is escalated: because of one of the tokens so far, or whatever it holds."""
        gate, value = self.gate, self.block_value
        if value is None or gate.name in ("always", "never"):
            return gate.name == "always"
        return crosses(gate.name, value, gate.wake if self.waking else gate.threshold)

    @property
    def reason(self) -> Reason | None:
        """Why the block is escalated, None if it is not."""
        name = self.gate.name
        return name if name != "never" and self.escalates else None
