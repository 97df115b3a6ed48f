"""Replaying a trace under any gate and k, without the models.

Exact while the run stands on one of the two recorded texts. It leaves them where the edge is left alone with a token
that the cloud would have changed, and a later block is escalated: from there the replay keeps the text that it is on
and takes the other token in place of the recorded one, as if what follows did not depend on it. That is why settings
near the frontier are confirmed by real runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.decoding.gate import Gate, TokenEvidence
from specdec_cli.tune.trace import Trace, Track


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a setting would have done with a clip.

    Attributes:
        ids: the text.
        rounds: blocks.
        escalations: blocks that were escalated.
        exact: whether the run never left the recorded texts.
    """

    ids: tuple[int, ...]
    rounds: int
    escalations: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Block:
    """Drafted tokens from one position of a track on.

    Attributes:
        tokens: the edge's choices with their evidence.
        departs: index of the first one that is not the track's own token; their number if all are.
    """

    tokens: list[TokenEvidence]
    departs: int


def drafted(track: Track, position: int, k: int) -> Block:
    """The block of up to `k` tokens that the edge drafts at `position`, ended by the end of the track."""
    end = min(position + k, len(track.ids))
    tokens = [track.evidence(place) for place in range(position, end)]
    departs = next((t for t, token in enumerate(tokens) if token.id != track.ids[position + t]), len(tokens))
    return Block(tokens, departs)


def replay(trace: Trace, gate: Gate, k: int) -> Replayed:
    """Runs `gate` over a trace with blocks of `k` tokens, greedy acceptance, no loops."""
    track, position = trace.edge, 0
    ids: list[int] = []
    rounds = escalations = 0
    exact = True
    while position < len(track.ids):
        block = drafted(track, position, k)
        crossed, size = _judge(gate, block.tokens, position)
        rounds += 1
        # after its departure a block's evidence is that of the recorded text
        exact = exact and (block.departs >= size or (crossed is not None and crossed <= block.departs))
        if crossed is None:
            ids += [token.id for token in block.tokens[:size]]
            position += size
            continue
        escalations += 1
        accepted = 0
        while accepted < size and block.tokens[accepted].id == track.target[position + accepted]:
            accepted += 1
        ids += [token.id for token in block.tokens[:accepted]]
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
