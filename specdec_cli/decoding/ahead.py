"""Drafting ahead: the edge drafts on while the cloud verifies a block elsewhere.

It supposes that the block will be accepted whole, guesses the cloud's token after it, and drafts on from there block by
block as the coming rounds would, up to the first block that would be verified itself. Scores depend on the text alone,
so they serve wherever the text turns out to be the one that they were computed for; otherwise they are dropped. That is
why drafting ahead cannot change what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from specdec_cli.decoding.evidence import evidence_of
from specdec_cli.decoding.gate import Gate, Judge
from specdec_cli.decoding.stop import LoopRule

if TYPE_CHECKING:
    from specdec_cli.decoding.draft import Drafter


@dataclass(slots=True)
class _Step:
    """One step of the chain.

    Attributes:
        scores: [1, vocab] processed scores after the prefix.
        hidden_ms: the part of the step's time that lay within the verification.
        counts: whether its token is a draft of which no block has been made: it is none if it guesses the cloud's own.
    """

    scores: torch.Tensor
    hidden_ms: float
    counts: bool


class Ahead:
    """A chain of tokens drafted ahead and, after each of its prefixes, the scores that the next one was chosen by."""

    def __init__(self) -> None:
        self._chain: tuple[int, ...] = ()
        self._steps: dict[int, _Step] = {}  # length of the prefix -> the step after it
        self._lost = 0

    def __bool__(self) -> bool:
        return bool(self._steps)

    def use(self, text: Sequence[int]) -> tuple[torch.Tensor, float] | None:
        """Scores [1, vocab] after `text`, if they are known, and their hidden milliseconds, which count once."""
        step = self._steps.get(len(text))
        if step is None or self._chain[: len(text)] != tuple(text):
            return None
        hidden_ms, step.hidden_ms, step.counts = step.hidden_ms, 0.0, False
        return step.scores, hidden_ms

    def add(self, text: Sequence[int], scores: torch.Tensor, hidden_ms: float, *, guess: bool) -> int:
        """Appends the likeliest token after `text`, whose scores [1, vocab] these are; returns it."""
        token = int(scores.argmax())
        if self._chain != tuple(text):
            self._lost = self.keep(None)
        self._chain = (*text, token)
        self._steps[len(text)] = _Step(scores, hidden_ms, counts=not guess)
        return token

    def keep(self, text: Sequence[int] | None) -> int:
        """Forgets all but what continues `text`, or everything; returns how many drafted tokens were of no use."""
        fits = text is not None and len(text) < len(self._chain) and self._chain[: len(text)] == tuple(text)
        dropped = [self._steps.pop(n) for n in list(self._steps) if not fits or n < len(text or ())]
        lost, self._lost = self._lost + sum(step.counts for step in dropped), 0
        return lost


def draft_ahead(
    drafter: Drafter, gate: Gate, k: int, most: int, text: Sequence[int], verdict: Future[Any], loop: LoopRule
) -> None:
    """Drafts until the verdict is there, or until there is nothing more to draft. Decides nothing.

    Args:
        drafter: the edge.
        gate: of the run.
        k: tokens of a block.
        most: length limit of the text.
        text: the committed text and the block under way.
        verdict: of that block.
        loop: where a text runs into a loop, after which nothing can be foreseen.
    """
    written = list(text)
    if most - len(written) < 2 or verdict.done():  # room for the cloud's own token alone
        return
    written.append(_step(drafter, written, verdict, guess=True)[0])
    while written[-1] not in drafter.stop_ids and len(written) < most:
        start = len(written)
        judge = Judge(gate, start)  # not gate.open: no random generator may move
        while len(written) < min(start + k, most):
            if verdict.done():
                return
            token, scores = _step(drafter, written, verdict)
            written.append(token)
            unsure = judge.add(*evidence_of(scores, (token,)))
            if token in drafter.stop_ids or (unsure and gate.stops_drafting):
                break
        if gate.name == "random" or judge.escalates or loop.end(written, start) is not None:
            return


def _step(
    drafter: Drafter, text: Sequence[int], verdict: Future[Any], *, guess: bool = False
) -> tuple[int, torch.Tensor]:
    """The likeliest token after `text` and its scores [1, vocab], remembered in the drafter's chain."""
    before_ms = drafter.work.step_ms
    scores, _ = drafter.row(text)
    # of a step in which the verdict arrived, nothing counts as hidden
    hidden_ms = 0.0 if verdict.done() else drafter.work.step_ms - before_ms
    return drafter.ahead.add(text, scores, hidden_ms, guess=guess), scores
