"""The gate: is the edge sure enough of its block, or does the block go to the cloud?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specdec_cli.decoding.evidence import TokenEvidence, evidence_of
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import DecodingError
from specdec_cli.types import DEFAULT_THRESHOLDS, TOKEN_GATES, GateName, Reason


@dataclass(frozen=True, slots=True)
class Gate:
    """A threshold on one figure per drafted token; a single unsure token escalates the block.

    Attributes:
        name: which figure: `entropy` (nats, escalates at or above the threshold), `margin` (probability of the
            likeliest token minus that of the second, at or below), `logprob` (natural log of the drafted token's
            probability, at or below), `learned` (probability that the cloud would replace a token of the block up
            to this one, at or above); `random` escalates a fixed share of the blocks, which is the baseline that a
            gate has to beat; `always` and `never` decide without a figure.
        threshold: in the unit of the figure; unused by `always` and `never`.
        stop_drafting: end a block with the first token that escalates it.
        classifier: of the learned gate.
        generator: of the random gate, apart from the one that tokens are drawn with.
    """

    name: GateName
    threshold: float = 0.0
    stop_drafting: bool = False
    classifier: Classifier | None = None
    generator: torch.Generator | None = None

    def open(self, start: int) -> Judge:
        """Begins a block after `start` tokens of text."""
        draw = None
        if self.generator is not None:
            draw = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        return Judge(self, start, draw)

    @property
    def stops_drafting(self) -> bool:
        """Whether a block ends with its first unsure token: only where the gate judges tokens."""
        return self.stop_drafting and self.name in TOKEN_GATES

    def score(self, block: list[TokenEvidence], t: int, start: int, before: float) -> float:
        """The figure of token `t` of `block`; `before` is that of the token before it."""
        if self.name == "margin":
            return block[t].margin
        if self.name == "logprob":
            return block[t].logprob
        if self.classifier is not None:
            return self.classifier.score(block, t, start, before)
        return block[t].entropy

    def crosses(self, score: float) -> bool:
        """Whether a token with this figure escalates its block."""
        if self.name in ("always", "never"):
            return self.name == "always"
        if self.name == "random":
            return score < self.threshold
        return score <= self.threshold if self.name in ("margin", "logprob") else score >= self.threshold


class Judge:
    """The gate at work on one block: token by token, so that drafting can end at the first unsure one.

    Args:
        gate: whose judgement it is.
        start: tokens of the text before the block.
        draw: the random gate's figure for the whole block, uniform in [0, 1).

    Attributes:
        evidence: of each token so far.
        scores: the gate's figure of each.
    """

    def __init__(self, gate: Gate, start: int, draw: float | None = None) -> None:
        self.gate = gate
        self.evidence: list[TokenEvidence] = []
        self.scores: list[float] = []
        self._start = start
        self._draw = draw

    def add(self, token: TokenEvidence) -> bool:
        """Judges the block's next token; returns whether it escalates the block."""
        self.evidence.append(token)
        before = self.scores[-1] if self.scores else 0.0
        self.scores.append(
            self._draw
            if self._draw is not None
            else self.gate.score(self.evidence, len(self.evidence) - 1, self._start, before)
        )
        return self.gate.crosses(self.scores[-1])

    def add_all(self, scores: torch.Tensor, ids: Sequence[int]) -> None:
        """Judges the tokens that were not judged as they came, by the scores [m, vocab] of the whole block."""
        seen = len(self.evidence)
        for token in evidence_of(scores[seen:], ids[seen:]) if seen < len(ids) else ():
            self.add(token)

    @property
    def escalates(self) -> bool:
        """Whether the block is escalated: because of one of the tokens so far, or whatever it holds."""
        return self.gate.name == "always" or any(map(self.gate.crosses, self.scores))

    @property
    def reason(self) -> Reason | None:
        """Why the block is escalated, None if it is not."""
        name = self.gate.name
        return name if name != "never" and self.escalates else None


def make_gate(
    name: GateName,
    threshold: float | None = None,
    *,
    stop_drafting: bool = False,
    classifier: Classifier | None = None,
    generator: torch.Generator | None = None,
) -> Gate:
    """A gate with its own default threshold where none is given.

    Raises:
        DecodingError: the learned gate without a classifier, or the random one without a generator.
    """
    if name == "learned" and classifier is None:
        raise DecodingError("the gate 'learned' has no weights", hint="Name their file: --set gate.file=FILE")
    if name == "random" and generator is None:
        raise DecodingError("the gate 'random' has no generator")
    if threshold is None:
        threshold = classifier.threshold if name == "learned" and classifier else DEFAULT_THRESHOLDS.get(name, 0.0)
    return Gate(
        name,
        threshold,
        stop_drafting,
        classifier if name == "learned" else None,
        generator if name == "random" else None,
    )
