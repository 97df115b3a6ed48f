"""A trace of a clip: the edge's text and the cloud's, each scored by both models at every position; and its replay.

Two texts are needed because a gate changes the text that follows. A hybrid run starts on the edge's text and stays on
it, word for word, until the cloud first changes a token; from there it is on the cloud's text until the edge is first
left alone where the two differ. So nearly every block of nearly every hybrid run, whatever its gate and k, stands on
one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import Field

from specdec_cli.decoding.gate import Gate, GateState, TokenEvidence
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.evaluate.bootstrap import Figures
from specdec_cli.types import Candidates

DIGITS: Final = 5


class Track(Figures):
    """One text, with what both models say at each of its n positions. All lists have n entries."""

    ids: tuple[int, ...] = Field(description="the text")
    chosen: tuple[int, ...] = Field(description="the edge's likeliest token after the text so far")
    target: tuple[int, ...] = Field(description="the cloud's likeliest token there")
    entropy: tuple[float, ...] = Field(description="of the edge, nats")
    logprob: tuple[float, ...] = Field(description="of the edge's likeliest token, nats")
    class_entropy: tuple[float, ...] = Field(description="of the edge, summed over groups of tokens, nats")
    candidates: tuple[Candidates, ...] = Field(description="the edge's likeliest tokens with their probabilities")

    def evidence(self, position: int) -> TokenEvidence:
        """What a gate would know of the token that the edge chooses at `position`."""
        candidates = self.candidates[position]
        second = candidates[1][1] if len(candidates) > 1 else 0.0
        margin = candidates[0][1] - second
        own = self.chosen[position], self.entropy[position], margin, self.logprob[position]
        return TokenEvidence(*own, candidates, self.class_entropy[position])

    def drafted(self, position: int, k: int) -> list[TokenEvidence]:
        """The block of up to `k` tokens that the edge drafts at `position`, ended by the end of the text."""
        return [self.evidence(place) for place in range(position, min(position + k, len(self.ids)))]


class Trace(Figures):
    """One clip, as a line of the file of recordings holds it."""

    recording: Literal[1] = 1
    file: str
    sha256: str
    duration_s: float
    setup: dict[str, Any] = Field(description="models, prompt and decoding settings; another setup is another text")
    edge: Track = Field(description="the text that the edge writes alone")
    cloud: Track = Field(description="the text that the cloud writes alone, which is that of a lossless run")
    edge_caption: str
    cloud_caption: str

    def to_json(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a setting would have done with a clip; exact where the run never leaves the recorded texts."""

    ids: tuple[int, ...]
    rounds: int
    escalations: int
    exact: bool


def replay(trace: Trace, gate: Gate, k: int, *, defer: bool = False) -> Replayed:
    """Runs `gate` over a trace, without the models: blocks of `k` tokens, greedy acceptance, no loops.

    With `defer` a block is the rest of the caption, and `gate.wake` is the threshold until one is escalated.

    Exact while the run stands on one of the two recorded texts. It leaves them where the edge is left alone with a
    token that the cloud would have changed, and a later block is escalated: from there the replay keeps the text that
    it is on and takes the other token in place of the recorded one, as if what follows did not depend on it. That is
    why settings near the frontier are confirmed by real runs.
    """
    track, position = trace.edge, 0
    ids: list[int] = []
    rounds = escalations = 0
    exact = True
    while position < len(track.ids):
        tokens = track.drafted(position, MOST_DEFERRED if defer else k)
        crossed, size = _judge(gate.open(position, waking=defer and not escalations, whole=defer), tokens)
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


def _judge(judge: GateState, tokens: list[TokenEvidence]) -> tuple[int | None, int]:
    """Index of the token at which the gate escalates a block, None if it does not; and how many tokens are drafted."""
    crossed = None
    for index, token in enumerate(tokens):
        if judge.add(token) and crossed is None:
            crossed = index
            if judge.stops:
                return crossed, index + 1
    return crossed, len(tokens)
