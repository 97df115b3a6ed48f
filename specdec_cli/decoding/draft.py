"""Drafting: one model proposes a block of tokens, one forward each, and drafts ahead while a block is verified.

Drafting ahead supposes that the block will be accepted whole, guesses the cloud's token after it, and drafts on from
there block by block as the coming rounds would, up to the first block that would be verified itself. Scores depend on
the text alone, so they serve wherever the text turns out to be the one that they were computed for; otherwise they are
dropped. That is why drafting ahead cannot change what is written.

Neither can a kept tail. What was drafted after a corrected token often stands after the correction as well, so one
forward scores it there, and drafting goes on where the edge would have written something else (as in SpecASR).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.gate import Gate, Judge, TokenEvidence, evidence_of
from specdec_cli.decoding.scores import Scores, draw
from specdec_cli.decoding.stop import LoopRule
from specdec_cli.models.session import Session
from specdec_cli.types import ModelWork, Reason

Enough = Callable[[Judge], bool]
"""Whether a block ends with the token that was judged last."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens, and what the gate finds."""

    ids: tuple[int, ...] = ()  # none where the cloud is to generate without a draft
    scores: torch.Tensor | None = None  # [m, vocab] processed scores that each was chosen by
    evidence: tuple[TokenEvidence, ...] = ()
    figures: tuple[float, ...] = ()  # the gate's, per token
    reason: Reason | None = None  # why the block should be verified; None: it is kept
    ms: float = 0.0  # time spent drafting, without prefill
    hidden_ms: float = 0.0  # time that drafting these tokens took while an earlier block was being verified
    waking: bool = False  # see `types.Round`

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        assert self.scores is not None
        return self.scores.softmax(dim=-1)


@dataclass(slots=True)
class _Step:
    scores: torch.Tensor  # [1, vocab], processed
    hidden_ms: float  # the part of the step's time that lay within the verification
    counts: bool  # whether its token was drafted and is in no block yet; a guess of the cloud's own is no draft


class Drafter:
    """Proposes tokens from one model's session. A block ends with a stop id, since nothing after it could be kept."""

    def __init__(self, session: Session, settings: ScoringConfig, stop_ids: Collection[int]) -> None:
        self.session, self.stop_ids = session, frozenset(stop_ids)
        self.scores = Scores(settings, session, stop_ids)
        self._blocked_s = 0.0  # in calls of the session
        self._drafted: tuple[int, ...] = ()  # the text of the last block, and the block
        self._ahead: dict[tuple[int, ...], _Step] = {}  # drafted ahead, by the text that each continues

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @cached_property
    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.scores.settings.seed)

    @torch.inference_mode()
    def propose(
        self, text: Sequence[int], k: int, judge: Judge, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; fewer if one ends it, the gate stops drafting, or `enough` says so.

        With `top_k`, each is drawn from so many likeliest: a way out of a loop.
        """
        started, blocked_s, steps_ms = time.perf_counter(), self._blocked_s, self.work.step_ms
        stops, written, rows, hidden_ms = judge.stops, [*text], list[torch.Tensor](), 0.0
        draws = top_k is not None or self.scores.settings.sampling
        if not draws:
            self._keep_tail(text, k)
        while len(rows) < k and not (rows and written[-1] in self.stop_ids):
            row, row_hidden_ms = self.row(written)
            hidden_ms += row_hidden_ms
            if top_k is not None:
                floor = row.topk(min(top_k, row.shape[-1])).values[:, -1:]
                row = row.masked_fill(row < floor, -torch.inf)
            rows.append(row)
            written.append(draw(row[0].softmax(dim=-1), self._generator) if draws else int(row.argmax()))
            if stops or enough is not None:
                unsure = judge.add(*evidence_of(row, written[-1:]))
                if (stops and unsure) or (enough is not None and enough(judge)):
                    break
        self._drafted, ids = tuple(written), tuple(written[len(text) :])
        scores = torch.cat(rows) if len(rows) > 1 else rows[0] if rows else None
        if scores is not None:
            judge.add_all(scores, ids)
        own_s = time.perf_counter() - started - (self._blocked_s - blocked_s)
        ms = own_s * 1e3 + self.work.step_ms - steps_ms
        figures = tuple(judge.scores)
        return Draft(ids, scores, tuple(judge.evidence), figures, judge.reason, ms, hidden_ms, judge.waking)

    def _keep_tail(self, text: Sequence[int], k: int) -> None:
        """Scores in one forward what was drafted after a token that has been corrected, and remembers what stands."""
        end = len(text)
        tail = self._drafted[end : end + k - 1]
        if not tail or self._drafted[: end - 1] != tuple(text[:-1]) or tuple(text) in self._ahead:
            return
        written = [*text, *tail]
        for at, scores in enumerate(self._scored(written, len(tail) + 1), start=end):
            token = self._remember(written[:at], _Step(scores[None], 0.0, counts=False))
            if at == len(written) or token != written[at]:
                return

    def draft_ahead(
        self, gate: Gate, k: int, most: int, text: Sequence[int], verdict: Future[Any], loop: LoopRule
    ) -> None:
        """Drafts on from the text and the block under way until its verdict is there, or nothing can be foreseen.

        Blocks have `k` tokens, and the text at most `most`. Decides nothing.
        """
        written = list(text)
        if most - len(written) < 2 or verdict.done() or not self.stop_ids.isdisjoint(written[-1:]):
            return  # what follows is the cloud's own token at most
        written.append(self._step_ahead(written, verdict, guess=True)[0])
        while written[-1] not in self.stop_ids and len(written) < most:
            start = len(written)
            judge = gate.open(start, ahead=True)
            while len(written) < min(start + k, most):
                if verdict.done():
                    return
                token, scores = self._step_ahead(written, verdict, guess=False)
                written.append(token)
                unsure = judge.add(*evidence_of(scores, (token,)))
                if token in self.stop_ids or (unsure and gate.stops_drafting):
                    break
            if gate.name == "random" or judge.escalates or loop.end(written, start) is not None:
                return

    def _step_ahead(self, text: Sequence[int], verdict: Future[Any], *, guess: bool) -> tuple[int, torch.Tensor]:
        """The likeliest token after `text` and its scores [1, vocab], remembered."""
        before_ms = self.work.step_ms
        scores, _ = self.row(text)
        # of a step in which the verdict arrived, nothing counts as hidden
        hidden_ms = 0.0 if verdict.done() else self.work.step_ms - before_ms
        return self._remember(text, _Step(scores, hidden_ms, counts=not guess)), scores

    def _remember(self, text: Sequence[int], step: _Step) -> int:
        """Keeps a step after `text`; returns the likeliest token."""
        self._ahead[tuple(text)] = step
        return int(step.scores.argmax())

    def keep(self, text: tuple[int, ...] | None) -> int:
        """Forgets steps that do not continue `text`, or all; returns how many tokens drafted ahead were of no use."""
        useless = [known for known in self._ahead if text is None or known[: len(text)] != text]
        return sum(self._ahead.pop(known).counts for known in useless)

    def row(self, text: Sequence[int]) -> tuple[torch.Tensor, float]:
        """Processed scores [1, vocab] after `text`, and the milliseconds that finding them took ahead of time, once."""
        if not self._ahead or (step := self._ahead.get(tuple(text))) is None:
            return self._scored(text, 1), 0.0
        hidden_ms, step.hidden_ms, step.counts = step.hidden_ms, 0.0, False
        return step.scores, hidden_ms

    def _scored(self, text: Sequence[int], positions: int) -> torch.Tensor:
        """Processed scores [positions, vocab] after the last prefixes of `text`."""
        started = time.perf_counter()
        logits = self.session.logits(text, positions)
        self._blocked_s += time.perf_counter() - started
        return self.scores(text, logits)
