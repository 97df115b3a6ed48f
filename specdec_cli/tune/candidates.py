"""Candidates: gates, thresholds, block sizes and deferred drafts that may be worth a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.learned import Classifier
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.tune.trace import Replayed, Trace, replay
from specdec_cli.types import TOKEN_GATES, GateName

RATES: Final = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)
"""Shares of the blocks that thresholds are chosen for."""

WOKEN: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the clips that deferred drafts wake the cloud for."""

AWAKE: Final[Mapping[GateName, float]] = {
    "entropy": 0.3,
    "class-entropy": 0.3,
    "margin": 0.85,
    "logprob": -0.1,
    "learned": 0.3,
}
"""Thresholds of deferred drafts once the cloud is awake, when a verification is cheap."""

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting: those of `Gate`, and k, the tokens drafted per block; with `wake` drafts are deferred."""

    gate: GateName
    threshold: float
    k: int
    stop_drafting: bool = False
    wake: float | None = None

    @property
    def deferred(self) -> bool:
        """Whether a block is the rest of the caption, and k does not count."""
        return self.wake is not None

    @property
    def searched(self) -> float:
        """The threshold that was searched for: `wake` where drafts are deferred."""
        return self.threshold if self.wake is None else self.wake

    @property
    def label(self) -> str:
        """Short name: "entropy 0.85, k 3, stopping", "entropy 0.85, deferred"."""
        if self.deferred:
            return f"{self.gate} {self.wake:g}, deferred"
        return f"{self.gate} {self.threshold:g}, k {self.k}" + (", stopping" if self.stop_drafting else "")

    def replay(self, trace: Trace, classifier: Classifier | None, seed: int) -> Replayed:
        """What it would do with a clip."""
        return replay(trace, self.make(classifier, trace.sha256, seed), self.k, defer=self.deferred)

    def make(self, classifier: Classifier | None, sha256: str, seed: int) -> Gate:
        """The gate for a replay of the clip with this hash; the random one's draws differ from clip to clip."""
        generator = None
        if self.gate == "random":
            digest = hashlib.blake2b(f"{seed}:{sha256}".encode(), digest_size=8).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
        return Gate(
            self.gate,
            self.threshold,
            wake=self.wake,
            stop_drafting=self.stop_drafting,
            classifier=classifier,
            generator=generator,
        )


def candidates(
    traces: Sequence[Trace],
    gates: Sequence[GateName],
    ks: Sequence[int],
    classifier: Classifier | None,
    rates: Sequence[float] = RATES,
) -> Iterator[Candidate]:
    """Every gate with every k, with and without stopping, at the thresholds that would escalate `rates` of the blocks.

    Thresholds are quantiles over the blocks of `traces`, cut as the edge alone would cut them; `classifier` is that of
    the learned gate, if that is among them.
    """
    for gate in gates:
        for k in ks:
            thresholds = rates if gate == "random" else _thresholds(traces, gate, k, classifier, rates)
            for threshold in thresholds:
                yield Candidate(gate, threshold, k)
                if gate in TOKEN_GATES and k > 1:
                    yield Candidate(gate, threshold, k, stop_drafting=True)


def deferred(
    traces: Sequence[Trace],
    gates: Sequence[GateName],
    k: int,
    classifier: Classifier | None,
    shares: Sequence[float] = WOKEN,
) -> Iterator[Candidate]:
    """Every gate but the random one with deferred drafts, at the thresholds that would wake the cloud for `shares`.

    `k` is recorded beside the setting, for runs without deferral; the rest is as for `candidates`.
    """
    for gate in (gate for gate in gates if gate in AWAKE):
        for wake in _thresholds(traces, gate, None, classifier, shares):
            yield Candidate(gate, AWAKE[gate], k, wake=wake)


def _thresholds(
    traces: Sequence[Trace], name: GateName, k: int | None, classifier: Classifier | None, rates: Sequence[float]
) -> Sequence[float]:
    """The thresholds that separate the most doubtful blocks, each once; `k` None: a clip's first deferred draft."""
    gate = Gate(name, 0.0, classifier=classifier)
    below = name in ("margin", "logprob")
    figures = []
    for trace in traces:
        for position in range(0, len(trace.edge.ids), k) if k else (0,):
            judge = gate.open(position, waking=k is None, whole=k is None)
            for token in trace.edge.drafted(position, k or MOST_DEFERRED):
                judge.add(token)
            assert judge.block_value is not None  # a trace has tokens
            figures.append(judge.block_value)
    quantiles = np.quantile(figures, rates if below else [1 - rate for rate in rates])
    return tuple(dict.fromkeys(round(float(value), _DIGITS) for value in quantiles))
