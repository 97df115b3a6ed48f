"""A trace of a clip: the edge's text and the cloud's, each scored by both models at every position.

Two texts are needed because a gate changes the text that follows. A hybrid run starts on the edge's text and stays on
it, word for word, until the cloud first changes a token; from there it is on the cloud's text until the edge is first
left alone where the two differ. So nearly every block of nearly every hybrid run, whatever its gate and k, stands on
one of the two.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from specdec_cli.decoding.gate import TokenEvidence
from specdec_cli.metrics.bootstrap import Figures
from specdec_cli.types import Candidates

DIGITS: Final = 5


class Track(Figures):
    """One text, with what both models say at each of its n positions. All lists have n entries."""

    ids: tuple[int, ...] = Field(description="the text")
    chosen: tuple[int, ...] = Field(description="the edge's likeliest token after the text so far")
    target: tuple[int, ...] = Field(description="the cloud's likeliest token there")
    entropy: tuple[float, ...] = Field(description="of the edge, nats")
    logprob: tuple[float, ...] = Field(description="of the edge's likeliest token, nats")
    candidates: tuple[Candidates, ...] = Field(description="the edge's likeliest tokens with their probabilities")

    def evidence(self, position: int) -> TokenEvidence:
        """What a gate would know of the token that the edge chooses at `position`."""
        candidates = self.candidates[position]
        second = candidates[1][1] if len(candidates) > 1 else 0.0
        margin = candidates[0][1] - second
        return TokenEvidence(self.chosen[position], self.entropy[position], margin, self.logprob[position], candidates)


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
