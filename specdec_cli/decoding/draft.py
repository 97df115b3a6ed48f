"""Drafting: one model proposes a block of tokens, one forward each, and drafts ahead while a block is verified.

Drafting ahead supposes that the block will be accepted whole, guesses the cloud's token after it, and drafts on from
there block by block, as the coming rounds would, up to the first block that would escalate. Scores depend on the text
alone: they are used if the text turns out to be the one that they follow, and dropped otherwise. So drafting ahead
cannot change what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch

from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.evidence import reads_each_row
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.pick import most_likely
from specdec_cli.decoding.scores import draw
from specdec_cli.decoding.stop import LoopRule
from specdec_cli.models.session import UNREAD
from specdec_cli.types import ModelWork

UNREAD_TOKENS: Final = {"cpu": 1}
"""Tokens that are drafted before the host reads them, by type of device; a CPU has nothing to wait for."""
_ON_A_GPU: Final = 8  # the same for any other device: a block, or part of a deferred draft
_CHECKED: Final = 2  # the same if the gate or the length may end the block at any token: then a step is wasted
_GUESSED: Final = 4  # the same if earlier captions may give the next tokens


@dataclass(slots=True)
class _Step:
    scores: torch.Tensor  # [1, vocab], processed
    token: int  # the most likely
    hidden_ms: float  # the step's time, if it lay within the verification; else 0
    counts: bool  # whether its token is a draft that is in no block yet; a guess of the cloud's own token is no draft


@dataclass(slots=True, eq=False)
class _Block:
    """A block that is being drafted."""

    written: list[int]  # the text, and the tokens of the block that the host has read
    top_k: int | None  # draw from so many most likely tokens; None: as the settings say
    read: list[torch.Tensor] = field(default_factory=list)  # processed scores with evidence, [1, vocab] each
    rows: list[torch.Tensor] = field(default_factory=list)  # processed scores without evidence yet, [1, vocab] each
    chosen: list[torch.Tensor] = field(default_factory=list)  # tokens by the last rows, by all if drawn: int64 [1] each
    states: list[torch.Tensor] = field(default_factory=list)  # of the generator before each draw; [] without draws
    start: int = field(init=False)  # tokens of text before the block

    def __post_init__(self) -> None:
        self.start = len(self.written)


class Drafter:
    """Proposes tokens from one model's session. A block ends with a stop id, since nothing after it could be kept."""

    is_remote: Literal[False] = False

    def __init__(self, scores: NextScores) -> None:
        self.scores, self.session, self.stop_ids = scores, scores.session, scores.stop_ids
        self._settings = scores.pipeline.settings
        self._generator = torch.Generator().manual_seed(self._settings.seed)
        # on a CPU with a large vocabulary evidence is fetched token by token, and holds the choice as well
        self._reads_each = reads_each_row(self.session.model.device, self.session.vocab_size)
        self._ahead: dict[tuple[int, ...], _Step] = {}  # steps drafted ahead, by the text that each continues

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @torch.inference_mode()
    def propose(
        self, text: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        """Up to `k` tokens that continue `text`; fewer if one ends it, the gate stops drafting, or `enough` says so.

        `top_k`: draw each token from so many most likely ones, as a way out of a loop.
        """
        started_ms, hidden_ms, block, ended = self.scores.clock_ms, 0.0, _Block([*text], top_k), False
        checks, end, written = state.stops or enough is not None, len(text) + k, block.written
        draws = top_k is not None or self._settings.sampling
        while len(written) < end and not ended:
            row, row_hidden_ms, known = self.row(written)
            hidden_ms += row_hidden_ms
            steps = min(self._unread(written, checks=checks), end - len(written))
            self._steps(block, row, steps, draws=draws)
            if steps > 1 or checks or self._reads_each:
                ended = self._read(block, state, enough)
                continue
            if draws:
                known = self.scores.drawn(block.rows[-1], block.chosen[-1])
            written.append(self.scores.choice(written) if known is None else known)
            ended = written[-1] in self.stop_ids
        if block.rows:
            self._read(block, state, None)
        self.scores.tail = written
        ms = self.scores.clock_ms - started_ms
        ids, scores = tuple(written[len(text) :]), tuple(block.read) or None
        return Draft(ids, scores, gate_state=state, reason=state.reason, ms=ms, hidden_ms=hidden_ms)

    def _unread(self, written: list[int], *, checks: bool) -> int:
        """How many tokens may be drafted before the host reads them; each but the first is fed from the device."""
        most = UNREAD_TOKENS.get(self.session.model.device.type, _ON_A_GPU)
        if most == 1 or self._ahead or not self.session.can_step or self.session.fed != written:
            return 1
        return min(most, _CHECKED if checks else _GUESSED if self.scores.guesses else most)

    def _steps(self, block: _Block, row: torch.Tensor, count: int, *, draws: bool) -> None:
        """Chooses `count` tokens on the device, the first one by its row [1, vocab], each but the last being fed."""
        text = block.written[:]
        for at in range(count):
            if at:
                text.append(UNREAD)
                row = self.scores.step(text, block.chosen[-1])
            if block.top_k is not None:
                floor = row.topk(min(block.top_k, row.shape[-1])).values[:, -1:]
                row = row.masked_fill(row < floor, -torch.inf)
            block.rows.append(row)
            if draws:
                block.states.append(self._generator.get_state())
                block.chosen.append(draw(row.softmax(dim=-1), self._generator))
            elif count > 1:
                block.chosen.append(most_likely(row)[1])

    def _read(self, block: _Block, state: GateState, enough: Enough | None) -> bool:
        """Fetches the chosen tokens with their evidence; drops those after an end; returns whether there is an end."""
        written = block.written
        with self.scores.waiting():
            tokens = state.evidence_on(
                block.rows, torch.cat(block.chosen) if block.states else None, self.session.model.name
            )
        known = len(written) - block.start - len(state.evidence)  # of these tokens the host has read the first ones
        if len(tokens) - known > 1:
            self.scores.fill_in([token.id for token in tokens[known:-1]])
        kept, ended = 0, False
        for kept, token in enumerate(tokens, start=1):
            unsure = state.add(token)
            if kept > known:
                written.append(token.id)
                ended = token.id in self.stop_ids or (state.stops and unsure)
                if ended or (enough is not None and enough(state)):
                    ended = True
                    break
        if block.states and kept < len(tokens):
            self._generator.set_state(block.states[kept])  # as if the dropped tokens had never been drawn
        block.read += block.rows[:kept]
        block.rows, block.chosen, block.states = [], [], []
        return ended

    def draft_ahead(
        self, gate: Gate, k: int, most: int, text: Sequence[int], verdict: Future[Any], loop: LoopRule
    ) -> None:
        """Drafts on after the block that is being verified, until its verdict is there or a block would escalate.

        `text` includes that block. Blocks have `k` tokens, and the text at most `most`. Nothing is committed.
        """
        written = list(text)
        if most - len(written) < 2 or verdict.done() or not self.stop_ids.isdisjoint(written[-1:]):
            return  # at most the cloud's own token follows
        written.append(self._step_ahead(written, verdict, guess=True)[0])
        while written[-1] not in self.stop_ids and len(written) < most:
            start = len(written)
            state = gate.open(start, ahead=True)
            while len(written) < min(start + k, most):
                if verdict.done():
                    return
                token, scores = self._step_ahead(written, verdict, guess=False)
                written.append(token)
                unsure = state.read(scores, (token,), self.session.model.name)
                if token in self.stop_ids or (unsure and state.stops):
                    break
            if gate.name == "random" or state.escalates or loop.end(written, start) is not None:
                return

    def _step_ahead(self, text: Sequence[int], verdict: Future[Any], *, guess: bool) -> tuple[int, torch.Tensor]:
        """The most likely token after `text`, and the scores [1, vocab] there, which `row` finds again."""
        before_ms = self.work.step_ms
        scores, _, known = self.row(text)
        token = self.scores.choice(text) if known is None else known
        # a step in which the verdict arrived does not count as hidden
        hidden_ms = 0.0 if verdict.done() else self.work.step_ms - before_ms
        self._ahead[tuple(text)] = _Step(scores, token, hidden_ms, counts=not guess)
        return token, scores

    def drop_stale(self, text: tuple[int, ...] | None) -> int:
        """Drops steps that do not continue `text`; None: all. Returns how many tokens were drafted ahead in vain."""
        useless = [known for known in self._ahead if text is None or known[: len(text)] != text]
        return sum(self._ahead.pop(known).counts for known in useless)

    def row(self, text: Sequence[int]) -> tuple[torch.Tensor, float, int | None]:
        """Processed scores [1, vocab] after `text`, their hidden time, and their most likely token.

        The time, ms, is that of a step drafted ahead, at its first use; else 0. The token is None if the host has not
        read it.
        """
        if not self._ahead or (step := self._ahead.get(tuple(text))) is None:
            return self.scores.after(text), 0.0, None
        hidden_ms, step.hidden_ms, step.counts = step.hidden_ms, 0.0, False
        return step.scores, hidden_ms, step.token
