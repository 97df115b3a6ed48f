"""Drafting: one model proposes a block of tokens, one forward each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.ahead import Ahead
from specdec_cli.decoding.evidence import TokenEvidence, evidence_of
from specdec_cli.decoding.gate import Judge
from specdec_cli.decoding.scores import Scores, draw
from specdec_cli.models.session import Session
from specdec_cli.types import ModelWork, Reason

Enough = Callable[[Judge], bool]
"""Whether a block ends with the token that was judged last."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block of m tokens, and what the gate finds.

    Attributes:
        ids: the tokens; none where the cloud is to generate without a draft.
        scores: [m, vocab] processed scores that each was chosen by, or None of an empty draft.
        evidence: what the drafting model's own distributions say of each token.
        figures: the gate's figure per token.
        reason: why the block should be verified; None: it is kept.
        ms: time spent drafting, milliseconds, without prefill.
        hidden_ms: time that drafting these tokens took while an earlier block was being verified, milliseconds.
    """

    ids: tuple[int, ...] = ()
    scores: torch.Tensor | None = None
    evidence: tuple[TokenEvidence, ...] = ()
    figures: tuple[float, ...] = ()
    reason: Reason | None = None
    ms: float = 0.0
    hidden_ms: float = 0.0

    def probabilities(self) -> torch.Tensor:
        """[m, vocab] distribution at each drafted token."""
        assert self.scores is not None
        return self.scores.softmax(dim=-1)


class Drafter:
    """Proposes tokens from one model's session.

    Args:
        session: the clip on the drafting model.
        settings: of the run; the seed is that of the clip's random generator, on the CPU.
        stop_ids: a block ends with any of these, since nothing after it could be kept.

    Attributes:
        scores: of that model.
        ahead: what was drafted while a block was verified elsewhere.
    """

    def __init__(self, session: Session, settings: ScoringConfig, stop_ids: Collection[int]) -> None:
        self.session = session
        self.scores = Scores(settings, session, stop_ids)
        self.stop_ids = frozenset(stop_ids)
        self.ahead = Ahead()
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._blocked_s = 0.0  # in calls of the session

    @property
    def work(self) -> ModelWork:
        """What the session's model has done for this clip."""
        return self.session.work

    def propose(
        self, text: Sequence[int], k: int, judge: Judge, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`.

        Args:
            text: the committed token ids.
            k: most tokens; fewer if one of them ends the text, the gate stops drafting, or `enough` says so.
            judge: the gate, open for this block.
            enough: asked after each token.
            top_k: draw every token from so many likeliest: a way out of a loop.
        """
        started, blocked_s, steps_ms = time.perf_counter(), self._blocked_s, self.work.step_ms
        stops, ids, rows, hidden_ms = judge.gate.stops_drafting, list[int](), list[torch.Tensor](), 0.0
        while len(ids) < k and not (ids and ids[-1] in self.stop_ids):
            row, row_hidden_ms = self.row([*text, *ids])
            hidden_ms += row_hidden_ms
            if top_k is not None:
                floor = row.topk(min(top_k, row.shape[-1])).values[:, -1:]
                row = row.masked_fill(row < floor, -torch.inf)
            rows.append(row)
            if top_k is not None or self.scores.settings.sampling:
                ids.append(draw(row[0].softmax(dim=-1), self._generator))
            else:
                ids.append(int(row.argmax()))
            if stops or enough is not None:
                unsure = judge.add(*evidence_of(row, ids[-1:]))
                if (stops and unsure) or (enough is not None and enough(judge)):
                    break
        scores = torch.cat(rows) if len(rows) > 1 else rows[0] if rows else None
        if scores is not None:
            judge.add_all(scores, ids)
        own_s = time.perf_counter() - started - (self._blocked_s - blocked_s)
        return Draft(
            tuple(ids),
            scores,
            tuple(judge.evidence),
            tuple(judge.scores),
            judge.reason,
            own_s * 1e3 + self.work.step_ms - steps_ms,
            hidden_ms,
        )

    def row(self, text: Sequence[int]) -> tuple[torch.Tensor, float]:
        """Processed scores [1, vocab] after `text`, and the milliseconds that finding them took ahead of time."""
        known = self.ahead.use(text) if self.ahead else None
        if known is not None:
            return known
        started = time.perf_counter()
        logits = self.session.logits(text)
        self._blocked_s += time.perf_counter() - started
        return self.scores(text, logits), 0.0
