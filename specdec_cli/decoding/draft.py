"""Drafting: one model proposes a block of tokens, one forward each, and drafts ahead while a block is verified.

Drafting ahead supposes that the block will be accepted whole, guesses the cloud's token after it, and drafts on from
there block by block as the coming rounds would, up to the first block that would be verified itself. Logits depend on
the text alone, so they serve wherever the text turns out to be the one that they were computed for; otherwise they are
dropped. That is why drafting ahead cannot change what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import torch

from specdec_cli.decoding.accept import pick_token
from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.rows import Rows
from specdec_cli.decoding.stop import LoopRule
from specdec_cli.types import ModelWork


@dataclass(slots=True)
class _Step:
    scores: torch.Tensor  # [1, vocab], processed
    hidden_ms: float  # the part of the step's time that lay within the verification
    counts: bool  # whether its token was drafted and is in no block yet; a guess of the cloud's own is no draft


class Drafter:
    """Proposes tokens from one model's session. A block ends with a stop id, since nothing after it could be kept."""

    is_remote: Literal[False] = False

    def __init__(self, rows: Rows) -> None:
        self.rows, self.session, self.stop_ids = rows, rows.session, rows.stop_ids
        self._settings = rows.pipeline.settings
        self._generator = torch.Generator().manual_seed(self._settings.seed)
        self._ahead: dict[tuple[int, ...], _Step] = {}  # drafted ahead, by the text that each continues

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @torch.inference_mode()
    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; fewer if one ends it, the gate stops drafting, or `enough` says so.

        With `top_k`, each is drawn from so many likeliest: a way out of a loop.
        """
        started_ms, hidden_ms = self.rows.clock_ms, 0.0
        written, rows = [*text], list[torch.Tensor]()
        draws = top_k is not None or self._settings.sampling
        while len(rows) < k and not (rows and written[-1] in self.stop_ids):
            row, row_hidden_ms = self.row(written)
            hidden_ms += row_hidden_ms
            if top_k is not None:
                floor = row.topk(min(top_k, row.shape[-1])).values[:, -1:]
                row = row.masked_fill(row < floor, -torch.inf)
            rows.append(row)
            written.append(pick_token(row[0], self._generator, sampling=draws))
            if state.stops or enough is not None:
                unsure = state.read(row, written[-1:])
                if (state.stops and unsure) or (enough is not None and enough(state)):
                    break
        self.rows.tail, ids = written, tuple(written[len(text) :])
        logits = torch.cat(rows) if len(rows) > 1 else rows[0] if rows else None
        if logits is not None and not state.evidence:
            state.read(logits, ids)
        return Draft(ids, logits, state, state.reason, self.rows.clock_ms - started_ms, hidden_ms)

    def close(self) -> None:
        """Nothing is held elsewhere."""

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
            state = gate.open(start, ahead=True)
            while len(written) < min(start + k, most):
                if verdict.done():
                    return
                token, scores = self._step_ahead(written, verdict, guess=False)
                written.append(token)
                unsure = state.read(scores, (token,))
                if token in self.stop_ids or (unsure and state.stops):
                    break
            if gate.name == "random" or state.escalates or loop.end(written, start) is not None:
                return

    def _step_ahead(self, text: Sequence[int], verdict: Future[Any], *, guess: bool) -> tuple[int, torch.Tensor]:
        """The likeliest token after `text` and its scores [1, vocab], remembered."""
        before_ms = self.work.step_ms
        scores, _ = self.row(text)
        # of a step in which the verdict arrived, nothing counts as hidden
        hidden_ms = 0.0 if verdict.done() else self.work.step_ms - before_ms
        self._ahead[tuple(text)] = _Step(scores, hidden_ms, counts=not guess)
        return int(scores.argmax()), scores

    def keep(self, text: tuple[int, ...] | None) -> int:
        """Forgets steps that do not continue `text`, or all; returns how many tokens drafted ahead were of no use."""
        useless = [known for known in self._ahead if text is None or known[: len(text)] != text]
        return sum(self._ahead.pop(known).counts for known in useless)

    def row(self, text: Sequence[int]) -> tuple[torch.Tensor, float]:
        """Processed scores [1, vocab] after `text`, and the milliseconds that finding them took ahead of time, once."""
        if not self._ahead or (step := self._ahead.get(tuple(text))) is None:
            return self.rows.after(text), 0.0
        hidden_ms, step.hidden_ms, step.counts = step.hidden_ms, 0.0, False
        return step.scores, hidden_ms
