"""The learned gate's classifier: how likely is it that the cloud would replace a drafted token?

A logistic regression on the evidence of a token, its place, and the tokens of its block that come before it. It looks
at nothing behind the token, so that drafting can stop there. Fitted by `specdec tune`; no fitting library is needed
to use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.gate import TokenEvidence
from specdec_cli.errors import ConfigError

_FLOOR: Final = -7.0  # e^-7 is below a thousandth: smaller than that tells nothing more

Dense = Callable[[Sequence[TokenEvidence], int, int], float]
"""(evidence of the block so far, index of the token, tokens of the text before the block) -> value."""


def _log(value: float) -> float:
    return max(math.log(value), _FLOOR) if value > 0 else _FLOOR


def _p(token: TokenEvidence, rank: int) -> float:
    return token.candidates[rank][1] if rank < len(token.candidates) else 0.0


OF_TOKEN: Final[dict[str, Dense]] = {
    "entropy": lambda block, t, _: block[t].entropy,
    "log_entropy": lambda block, t, _: _log(block[t].entropy),
    "margin": lambda block, t, _: block[t].margin,
    "logprob": lambda block, t, _: max(block[t].logprob, _FLOOR),
    "odds": lambda block, t, _: _log(_p(block[t], 1) / _p(block[t], 0)),
    "third": lambda block, t, _: _p(block[t], 2),
    "place": lambda _, t, start: math.log1p(start + t),
}
"""Features of a token by itself: with these alone a token's probability is the same wherever its block begins.

Logarithms are natural, and none is below -7.
"""

OF_BLOCK: Final[dict[str, Dense]] = {
    "in_block": lambda _, t, __: float(t),
    "before": lambda block, t, _: max((token.entropy for token in block[:t]), default=0.0),
}
"""Features of its place in the block and of the tokens before it there."""

DENSE: Final = OF_TOKEN | OF_BLOCK


def sparse_features(token: TokenEvidence) -> list[tuple[str, int, float]]:
    """The features of a token's identity and its rivals': (kind, token id, value); all others are 0.

    In a gate file `id=N` is 1 and `doubt=N` is 1 - p(N) if token N was drafted, `second=N` is 1 if N is the second
    likeliest, and `p=N` is p(N) if N is among the candidates and was not drafted. Fits give `id=N` the weight of the
    attribute that N decides; the other kinds stand in files of earlier releases.
    """
    found = [("id", token.id, 1.0), ("doubt", token.id, 1.0 - math.exp(token.logprob))]
    for rank, (rival, p) in enumerate(token.candidates):
        if rank == 1:
            found.append(("second", rival, 1.0))
        if rival != token.id:
            found.append(("p", rival, p))
    return found


SPARSE_KINDS: Final = ("id", "second", "doubt", "p")


class Classifier:
    """The probability that the cloud would change a block, token by token.

    Args:
        weights: fitted.
        threshold: probability at which the gate escalates by default.
        wake: the wake threshold that belongs to it; None: the same.
        waking: weights for blocks that the wake threshold counts for; None: the same.

    Raises:
        ConfigError: a feature that this version does not know.
    """

    def __init__(
        self,
        weights: LearnedWeights,
        threshold: float,
        wake: float | None = None,
        waking: LearnedWeights | None = None,
    ) -> None:
        self.threshold, self.wake = threshold, wake
        self.waking = self if waking is None else Classifier(waking, threshold)
        self._dense: list[tuple[Dense, float]] = []
        self._of_ids: dict[int, float] = {}
        self._of_rivals: dict[tuple[str, int], float] = {}
        for name, weight in zip(weights.features, weights.weights, strict=True):
            kind, separator, id_ = name.partition("=")
            if name in DENSE:
                self._dense.append((DENSE[name], weight))
            elif separator and kind in SPARSE_KINDS and id_.isdecimal():
                if kind == "id":
                    self._of_ids[int(id_)] = weight
                else:
                    self._of_rivals[kind, int(id_)] = weight
            else:
                raise ConfigError(f"The gate file has a feature {name!r}, which this version of specdec does not know.")
        self._bias, self._slope, self._offset = weights.bias, weights.slope, weights.offset
        self._any = weights.combination == "any"

    def token_probability(self, block: Sequence[TokenEvidence], t: int, start: int) -> float:
        """How likely the cloud is to replace token `t` of `block`, if it has let those before it pass.

        Of the text, `start` tokens stand before the block.
        """
        logit = self._bias + self._of_ids.get(block[t].id, 0.0)
        for feature, weight in self._dense:
            logit += weight * feature(block, t, start)
        for kind, id_, value in sparse_features(block[t]) if self._of_rivals else ():
            logit += self._of_rivals.get((kind, id_), 0.0) * value
        return 0.5 + 0.5 * math.tanh(0.5 * (self._slope * logit + self._offset))  # the logistic function

    def score(self, block: Sequence[TokenEvidence], t: int, start: int, before: float) -> float:
        """How likely the cloud is to replace a token of `block` up to `t`; `before`: the score of token t - 1, or 0."""
        p = self.token_probability(block, t, start)
        return 1.0 - (1.0 - before) * (1.0 - p) if self._any else max(before, p)
