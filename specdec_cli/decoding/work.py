"""What the models of one clip have done, how many tokens they guessed, and the clip's time."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from specdec_cli.decoding.guesses import OWN_SOURCES
from specdec_cli.types import Decider, ModelWork, Prefill, Source, Token

if TYPE_CHECKING:
    from specdec_cli.decoding.block import Event
    from specdec_cli.decoding.loop import Loop
    from specdec_cli.decoding.next_scores import NextScores


class ClipWork:
    """The work of both models of a loop so far."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._reported = loop, set[Decider]()

    @property
    def edge(self) -> ModelWork | None:
        """The edge's work; None in cloud mode."""
        drafter = self._loop.drafter
        return None if drafter is None or self._loop.settings.mode == "cloud" else drafter.work

    @property
    def cloud(self) -> ModelWork | None:
        """The cloud's work; None in edge mode. In cloud mode a loaded cloud is the drafter."""
        alone = self._loop.drafter if self._loop.settings.mode == "cloud" else None
        cloud = self._loop.verifier or alone
        return None if cloud is None else cloud.work

    def new_prefills(self) -> Iterator[Prefill]:
        """Yields each model's prefill, once, when it is done. A vLLM server reports none."""
        roles: tuple[tuple[Decider, ModelWork | None], ...] = (("edge", self.edge), ("cloud", self.cloud))
        for role, work in roles:
            if work is not None and work.prefill_ms > 0 and role not in self._reported:
                self._reported.add(role)
                yield Prefill(role, work.prompt_tokens, work.encoder_ms, work.prefill_ms)

    def learn(self, tokens: Sequence[Token]) -> None:
        """Counts the finished text for the guesses of later captions."""
        for scores, own in self._guessing:
            scores.learn([token.id for token in tokens], [token.source in own for token in tokens])

    @property
    def guesses(self) -> tuple[int, int] | tuple[None, None]:
        """Tokens that loaded models guessed, and those of them that stood; None if no model guesses."""
        found = [scores for scores, _ in self._guessing]
        if not found:
            return None, None
        return sum(scores.guessed for scores in found), sum(scores.guesses_kept for scores in found)

    @property
    def _guessing(self) -> Iterator[tuple[NextScores, Collection[Source]]]:
        """Yields the scores of each loaded model that guesses, and the sources of tokens that it chose."""
        loop = self._loop
        roles: tuple[Decider, Decider] = ("cloud" if loop.settings.mode == "cloud" else "edge", "cloud")
        for model, role in zip((loop.drafter, loop.verifier), roles, strict=True):
            if loop.settings.guess_tokens and model is not None and model.scores is not None:
                yield model.scores, OWN_SOURCES[role]


class Clock:
    """Milliseconds since the start, without the time that the reader of the events takes."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def paused(self, *events: Event) -> Iterator[Event]:
        """Yields events; the clock stands still while they are read."""
        began = time.perf_counter()
        yield from events
        self._started += time.perf_counter() - began

    @property
    def ms(self) -> float:
        return (time.perf_counter() - self._started) * 1e3
