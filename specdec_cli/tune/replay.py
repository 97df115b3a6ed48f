"""Settings, and the replay of each on a recorded clip.

A recording holds two texts because a gate changes the text that follows. A hybrid run starts on the edge's text and
stays on it, word for word, until the cloud first changes a token; from there it is on the cloud's text until the gate
first keeps a token that the cloud would have changed. So nearly every block of nearly every hybrid run, whatever its
gate and k, has one of the two texts before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.length import MOST_DEFERRED, most_deferred
from specdec_cli.decoding.rows import TokenEvidence
from specdec_cli.tune.recording import Trace
from specdec_cli.types import LOW_IS_UNSURE, TOKEN_GATES, GateName

RATES: Final = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8)
"""Shares of the blocks that thresholds are chosen for."""

WOKEN: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the clips that call the cloud with deferred drafts."""

AWAKE: Final[Mapping[GateName, float]] = {
    "entropy": 0.3,
    "class-entropy": 0.3,
    "margin": 0.85,
    "logprob": -0.1,
}
"""Thresholds of deferred drafts after the first call, when a verification is cheap."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A gate with its thresholds, and k, the tokens drafted per block; with `wake` drafts are deferred."""

    gate: GateName
    threshold: float
    k: int
    wake: float | None = None

    @property
    def stop_drafting(self) -> bool:
        """Whether a block ends with its first unsure token, so that the edge drafts no further."""
        return self.gate in TOKEN_GATES and not self.deferred

    @property
    def deferred(self) -> bool:
        """Whether a block is the rest of the caption, whatever k is."""
        return self.wake is not None

    @property
    def label(self) -> str:
        """Short name: "entropy 0.85, k 3", "entropy 0.85, deferred"."""
        return (
            f"{self.gate} {self.wake:g}, deferred" if self.deferred else f"{self.gate} {self.threshold:g}, k {self.k}"
        )

    def replay(self, trace: Trace, seed: int) -> Replayed:
        """The replay of the setting on a clip; the random gate draws for each clip anew."""
        gate = Gate(
            self.gate,
            self.threshold,
            wake=self.wake,
            stop_drafting=self.stop_drafting,
            generator=torch.Generator().manual_seed((seed + int(trace.sha256[:15], 16)) % 2**63),
        )
        return replay(trace, gate, self.k, defer=self.deferred)


def candidates(
    traces: Sequence[Trace], gates: Sequence[GateName], ks: Sequence[int], *, defers: bool
) -> Iterator[Candidate]:
    """Every gate with every k, at the thresholds that would escalate `RATES` of the blocks.

    With `defers` every gate but the random one also with deferred drafts, at the thresholds by which `WOKEN` of the
    clips call; a middle k is recorded beside these, for runs without deferral. Thresholds are quantiles over the blocks
    of `traces`, cut as the edge alone would cut them.
    """
    for gate in gates:
        for k in ks:
            for threshold in RATES if gate == "random" else _thresholds(traces, gate, k, RATES):
                yield Candidate(gate, threshold, k)
        if defers and gate in AWAKE:
            for wake in _thresholds(traces, gate, None, WOKEN):
                yield Candidate(gate, AWAKE[gate], ks[len(ks) // 2], wake=wake)


def _thresholds(traces: Sequence[Trace], name: GateName, k: int | None, rates: Sequence[float]) -> Sequence[float]:
    """The thresholds that separate the least certain blocks, each once; `k` None: a clip's first deferred draft."""
    gate, size, deferred = Gate(name), k or MOST_DEFERRED, k is None
    figures = []
    for trace in traces:
        for position in range(0, 1 if deferred else len(trace.edge.ids), size):
            state = gate.open(waking=deferred, whole=deferred)
            _escalated(state, trace.edge.edge[position : position + size])
            figures.append(state.block_value or 0.0)  # a trace has tokens
    quantiles = np.quantile(figures, rates if name in LOW_IS_UNSURE else [1 - rate for rate in rates])
    return tuple(dict.fromkeys(round(float(value), 4) for value in quantiles))


@dataclass(frozen=True, slots=True)
class Replayed:
    """The replay of a setting on a clip; exact where the run never leaves the recorded texts."""

    ids: tuple[int, ...]
    rounds: int
    escalations: int
    exact: bool


def replay(trace: Trace, gate: Gate, k: int, *, defer: bool = False) -> Replayed:
    """Runs `gate` over a trace, without the models: blocks of `k` tokens, greedy acceptance, no loops.

    With `defer` a block is the rest of the caption, and `gate.wake` is the threshold until one is escalated.

    Exact while the run follows one of the two recorded texts. It leaves them where the gate keeps a token that the
    cloud would have changed, and a later block is escalated: from there the replay keeps the text that it is on and
    takes the other token in place of the recorded one, as if what follows did not depend on it. That is why settings
    near the frontier are confirmed by real runs.
    """
    track, position = trace.edge, 0
    ids: list[int] = []
    rounds = escalations = spent = 0
    exact = True
    while position < len(track.ids):
        drafted = track.edge[position : position + (most_deferred(spent, position) if defer else k)]
        state = gate.open(waking=defer and not escalations, whole=defer)
        crossed, size = _escalated(state, drafted)
        block = [token.id for token in drafted[:size]]
        rounds += 1
        spent += size
        # after the first token that is not the text's own, a block's evidence is that of the recorded text
        departs = _agreement(drafted, track.ids[position:])
        exact = exact and (departs >= size or (crossed is not None and crossed <= departs))
        accepted = size if crossed is None else _agreement(drafted[:size], track.target[position:])
        ids += block[:accepted]
        position += accepted
        if crossed is None:
            continue
        escalations += 1
        if position < len(track.ids):  # else the block ended the text, and nothing comes after that
            ids.append(track.target[position])
            if track is trace.edge and ids[-1] != track.ids[position]:
                if tuple(ids) == trace.cloud.ids[: len(ids)]:
                    track = trace.cloud
                else:
                    exact = False
            position += 1
    return Replayed(tuple(ids), rounds, escalations, exact)


def _agreement(drafted: Sequence[TokenEvidence], ids: Sequence[int]) -> int:
    """Number of tokens at the start of a block that equal those of a text, which is at least as long."""
    return next((index for index, token in enumerate(drafted) if token.id != ids[index]), len(drafted))


def _escalated(state: GateState, tokens: Sequence[TokenEvidence]) -> tuple[int | None, int]:
    """Index of the token at which the gate escalates a block, None if it does not; and how many tokens are drafted."""
    crossed = None
    for index, token in enumerate(tokens):
        if state.add(token) and crossed is None:
            crossed = index
            if state.stops:
                return crossed, index + 1
    return crossed, len(tokens)
