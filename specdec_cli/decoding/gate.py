"""The gate: is the edge sure enough of its block, or does the block go to the cloud?

It reads the evidence: what the drafting model's own distributions say of the tokens that it drafted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from specdec_cli.errors import DecodingError
from specdec_cli.types import DEFAULT_THRESHOLDS, TOKEN_GATES, Candidates, GateName, Reason

if TYPE_CHECKING:
    from specdec_cli.decoding.learned import Classifier

CANDIDATES: Final = 3  # likeliest tokens that are kept for each position


class TokenEvidence(NamedTuple):
    """One drafted token, after the logits processors."""

    id: int
    entropy: float  # of the distribution that it was chosen from, nats
    margin: float  # probability of the likeliest token minus that of the second
    logprob: float  # natural logarithm of the token's probability
    candidates: Candidates  # at most `CANDIDATES`

    @property
    def probability(self) -> float:
        return math.exp(self.logprob)


def entropies(probabilities: torch.Tensor) -> torch.Tensor:
    """Shannon entropy of each row, nats: [m, vocab] -> [m]. Impossible tokens (probability 0) count as 0."""
    nats: torch.Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return nats


def evidence_of(scores: torch.Tensor, ids: Sequence[int]) -> list[TokenEvidence]:
    """The evidence on m drafted tokens, whose processed scores [m, vocab] they were chosen by."""
    probabilities = scores.softmax(dim=-1)
    best, likeliest = probabilities.topk(min(CANDIDATES, probabilities.shape[-1]), dim=-1)
    rows = zip(ids, entropies(probabilities).tolist(), best.tolist(), likeliest.tolist(), strict=True)
    found = []
    for row, (id_, nats, ps, tokens) in enumerate(rows):
        # nearly always one of the candidates, whose probabilities have been fetched already
        own = ps[tokens.index(id_)] if id_ in tokens else float(probabilities[row, id_])
        possible = zip(tokens, ps, strict=True)
        candidates = tuple(possible) if ps[-1] > 0 else tuple(pair for pair in possible if pair[1] > 0)
        margin = ps[0] - ps[1] if len(ps) > 1 else 1.0
        found.append(TokenEvidence(id_, nats, margin, math.log(own) if own > 0 else -math.inf, candidates))
    return found


class Gate:
    """A threshold on one figure per drafted token; a single unsure token escalates the block.

    Args:
        name: which figure of `TokenEvidence`, or `learned` (probability that the cloud would replace a token of the
            block up to this one); `margin` and `logprob` escalate at or below the threshold, the others at or above;
            `random` escalates a share of the blocks, the baseline that a gate has to beat.
        threshold: in the unit of the figure; None: the gate's own.
        wake: the threshold of a block that would be the first of its clip to be verified; None: the same.
        stop_drafting: end a block with the first token that escalates it.
        classifier: of the learned gate; a DecodingError without.
        generator: of the random gate, which needs one that is not the one that tokens are drawn with.
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
    ) -> None:
        if name == "learned" and classifier is None:
            raise DecodingError("the gate 'learned' has no weights", hint="Name their file in gate.file.")
        if name == "random" and generator is None:  # it would judge by entropy
            raise DecodingError("the gate 'random' has no generator")
        self.name = name
        self.classifier = classifier if name == "learned" else None
        own = DEFAULT_THRESHOLDS.get(name, 0.0) if self.classifier is None else self.classifier.threshold
        self.threshold = own if threshold is None else threshold
        self.wake = self.threshold if wake is None else wake
        self.stops_drafting = stop_drafting and name in TOKEN_GATES
        self._generator = generator if name == "random" else None

    def open(self, start: int, *, waking: bool = False, whole: bool = False, ahead: bool = False) -> Judge:
        """Begins a block after `start` tokens of text; `whole`: drafted to its end."""
        draw = None  # what is drafted ahead may never become a block: no random generator may move
        if self._generator is not None and not ahead:
            draw = float(torch.rand((), generator=self._generator, dtype=torch.float64))
        return Judge(self, start, draw, waking=waking, stops=self.stops_drafting and not whole)

    def crosses(self, score: float, *, waking: bool = False) -> bool:
        """Whether a token with this figure escalates its block; `waking`: by the wake threshold."""
        if self.name in ("always", "never"):
            return self.name == "always"
        threshold = self.wake if waking else self.threshold
        if self.name == "random":
            return score < threshold
        return score <= threshold if self.name in ("margin", "logprob") else score >= threshold


class Judge:
    """The gate at work on one block, token by token, so that drafting can end (`stops`) at the first unsure one."""

    def __init__(self, gate: Gate, start: int, draw: float | None, *, waking: bool, stops: bool) -> None:
        self.gate, self._start, self._draw, self.waking, self.stops = gate, start, draw, waking, stops
        self.evidence: list[TokenEvidence] = []  # of each token so far
        self.scores: list[float] = []  # the gate's figure of each

    def add(self, token: TokenEvidence) -> bool:
        """Judges the block's next token; returns whether it escalates the block."""
        self.evidence.append(token)
        self.scores.append(self._score(token))
        return self.gate.crosses(self.scores[-1], waking=self.waking)

    def _score(self, token: TokenEvidence) -> float:
        if self._draw is not None:
            return self._draw
        if self.gate.classifier is not None:
            before = self.scores[-1] if self.scores else 0.0
            classifier = self.gate.classifier.waking if self.waking else self.gate.classifier
            return classifier.score(self.evidence, len(self.evidence) - 1, self._start, before)
        return {"margin": token.margin, "logprob": token.logprob}.get(self.gate.name, token.entropy)

    def add_all(self, scores: torch.Tensor, ids: Sequence[int]) -> None:
        """Judges the tokens that were not judged as they came, by the scores [m, vocab] of the whole block."""
        seen = len(self.evidence)
        for token in evidence_of(scores[seen:], ids[seen:]) if seen < len(ids) else ():
            self.add(token)

    @property
    def escalates(self) -> bool:
        """Whether the block is escalated: because of one of the tokens so far, or whatever it holds."""
        return self.gate.name == "always" or any(self.gate.crosses(score, waking=self.waking) for score in self.scores)

    @property
    def reason(self) -> Reason | None:
        """Why the block is escalated, None if it is not."""
        name = self.gate.name
        return name if name != "never" and self.escalates else None
