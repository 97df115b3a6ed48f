"""Replaying a trace under any gate and k, without the models.

Exact while the run stands on one of the two recorded texts. It leaves them where the edge is left alone with a token
that the cloud would have changed, and a later block is escalated: from there the replay keeps the text that it is on
and takes the other token in place of the recorded one, as if what follows did not depend on it. That is why settings
near the frontier are confirmed by real runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.gate import Gate
from specdec_cli.tune.trace import Trace


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a setting would have done with a clip; exact where the run never leaves the recorded texts."""

    ids: tuple[int, ...]
    rounds: int
    escalations: int
    exact: bool


def replay(trace: Trace, gate: Gate, k: int) -> Replayed:
    """Runs `gate` over a trace with blocks of `k` tokens, greedy acceptance, no loops."""
    track, position = trace.edge, 0
    ids: list[int] = []
    rounds = escalations = 0
    exact = True
    while position < len(track.ids):
        tokens = track.drafted(position, k)
        crossed, size = _judge(gate, tokens, position)
        rounds += 1
        # after the first token that is not the text's own, a block's evidence is that of the recorded text
        departs = next((t for t, token in enumerate(tokens) if token.id != track.ids[position + t]), len(tokens))
        exact = exact and (departs >= size or (crossed is not None and crossed <= departs))
        if crossed is None:
            ids += [token.id for token in tokens[:size]]
            position += size
            continue
        escalations += 1
        accepted = 0
        while accepted < size and tokens[accepted].id == track.target[position + accepted]:
            accepted += 1
        ids += [token.id for token in tokens[:accepted]]
        position += accepted
        if position >= len(track.ids):  # the block ended the text, and nothing comes after that
            break
        ids.append(track.target[position])
        if track is trace.edge and ids[-1] != track.ids[position]:
            if tuple(ids) == trace.cloud.ids[: len(ids)]:
                track = trace.cloud
            else:
                exact = False
        position += 1
    return Replayed(tuple(ids), rounds, escalations, exact)


def _judge(gate: Gate, tokens: list[TokenEvidence], start: int) -> tuple[int | None, int]:
    """Index of the token at which the gate escalates a block, None if it does not; and how many tokens are drafted."""
    judge = gate.open(start)
    crossed = None
    for index, token in enumerate(tokens):
        if judge.add(token) and crossed is None:
            crossed = index
            if gate.stops_drafting:
                return crossed, index + 1
    return crossed, len(tokens)
