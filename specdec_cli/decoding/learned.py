"""The learned gate's classifier: how likely is it that the cloud would replace a drafted token?

A logistic regression on the evidence on a token, its place, and the earlier tokens of its block. It reads nothing
after the token, so that drafting can stop there. `specdec tune` fits it; its use needs no fitting library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.errors import ConfigError

_FLOOR: Final = -7.0  # e^-7 is below a thousandth; smaller probabilities tell no more

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
"""Features of a token by itself. With these alone, a token's probability does not depend on where its block begins.

Logarithms are natural, and none is below -7.
"""

DENSE: Final[dict[str, Dense]] = OF_TOKEN | {
    "in_block": lambda _, t, __: float(t),
    "before": lambda block, t, _: max((token.entropy for token in block[:t]), default=0.0),
}
"""All features by name: those of the token, of its place in the block, and of the tokens before it in the block.

Beside these, the feature `id=N` is 1 if token N was drafted; fits give it the weight of the attribute that N decides.
"""


class Classifier:
    """The probability that the cloud would change a block, token by token.

    `waking` are the weights for a block that would call the cloud for the first time; None: the same.

    Raises ConfigError for a feature that this version does not know.
    """

    def __init__(self, weights: LearnedWeights, waking: LearnedWeights | None = None) -> None:
        self.waking = self if waking is None else Classifier(waking)
        self._dense: list[tuple[Dense, float]] = []
        self._of_id: dict[int, float] = {}
        for name, weight in zip(weights.features, weights.weights, strict=True):
            id_ = name.removeprefix("id=")
            if name in DENSE:
                self._dense.append((DENSE[name], weight))
            elif id_ != name and id_.isdecimal():
                self._of_id[int(id_)] = weight
            else:
                raise ConfigError(
                    f"The gate file has a feature {name!r}, which this version of specdec does not know.",
                    hint="Fit the gate again: specdec tune DIR --output FILE.",
                )
        self._bias, self._slope, self._offset = weights.bias, weights.slope, weights.offset
        self._most_entropy = math.inf if weights.most_entropy is None else weights.most_entropy
        self._any = weights.combination == "any"

    def token_probability(self, block: Sequence[TokenEvidence], t: int, start: int) -> float:
        """How likely the cloud is to replace token `t` of `block`, before which the text has `start` tokens.

        A token that is less certain than any in the fit has the probability 1: the fit says nothing about it.
        """
        if block[t].entropy > self._most_entropy:
            return 1.0
        logit = self._bias + self._of_id.get(block[t].id, 0.0)
        for feature, weight in self._dense:
            logit += weight * feature(block, t, start)
        return 0.5 + 0.5 * math.tanh(0.5 * (self._slope * logit + self._offset))  # the logistic function

    def combined(self, before: float, p: float) -> float:
        """How likely the cloud is to replace any token of a block: `before` for all but the last, `p` for that one."""
        return 1.0 - (1.0 - before) * (1.0 - p) if self._any else max(before, p)
