"""Drafting: one model proposes a block of tokens, one forward each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import torch

from specdec_cli.decoding.block import Draft, Enough
from specdec_cli.decoding.gate import GateState
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.rows import CANDIDATES, TokenEvidence, most_likely, named, reads_each_row
from specdec_cli.decoding.scores import draw
from specdec_cli.models.session import UNREAD
from specdec_cli.types import Candidates, ModelWork

UNREAD_TOKENS: Final = {"cpu": 1}
"""Tokens that are drafted before the host reads them, by type of device; a CPU has nothing to wait for."""
_ON_A_GPU: Final = 8  # the same for any other device: a block, or part of a deferred draft
_CHECKED: Final = 2  # the same if the gate or the length may end the block at any token: then a step is wasted
_GUESSED: Final = 4  # the same if earlier captions may give the next tokens


@dataclass(slots=True, eq=False)
class _Drafting:
    """A block that is being drafted."""

    written: list[int]  # the text, and the tokens of the block that the host has read
    top_k: int | None  # draw from so many most likely tokens; None: as the settings say
    read: list[torch.Tensor] = field(default_factory=list)  # processed scores with evidence, [1, vocab] each
    likeliest: list[Candidates] = field(default_factory=list)  # the most likely tokens by these
    rows: list[torch.Tensor] = field(default_factory=list)  # processed scores without evidence yet, [1, vocab] each
    chosen: list[torch.Tensor] = field(default_factory=list)  # tokens by the last rows, by all if drawn: int64 [1] each
    states: list[torch.Tensor] = field(default_factory=list)  # of the generator before each draw; [] without draws
    start: int = field(init=False)  # tokens of text before the block

    def __post_init__(self) -> None:
        self.start = len(self.written)


class LocalDrafter:
    """Proposes the blocks of one clip with a model of this process; see `Drafter`.

    Each token is the choice from a row of `NextScores.after`; the first row of a clip costs reading its prompt and
    audio. A block ends with a stop id, since nothing after it could be
    kept. A draft names the `top_n` most likely tokens of each position.
    """

    is_remote: ClassVar[bool] = False

    def __init__(self, next_scores: NextScores, top_n: int = 0) -> None:
        self.next_scores, self.session, self.stop_ids = next_scores, next_scores.session, next_scores.stop_ids
        self._settings, self._top_n = next_scores.pipeline.settings, top_n
        self._generator = torch.Generator().manual_seed(self._settings.seed)
        # on a CPU with a large vocabulary evidence is fetched token by token, and holds the choice as well
        self._reads_each = reads_each_row(self.session.model.device, self.session.vocab_size)

    @property
    def work(self) -> ModelWork:
        return self.session.work

    @torch.inference_mode()
    def propose(
        self, text_ids: Sequence[int], k: int, state: GateState, enough: Enough | None = None, top_k: int | None = None
    ) -> Draft:
        started_ms, drafting, ended = self.next_scores.clock_ms, _Drafting([*text_ids], top_k), False
        checks, end, written = state.stops or enough is not None, len(text_ids) + k, drafting.written
        draws = top_k is not None or self._settings.sampling
        while len(written) < end and not ended:
            row = self.next_scores.after(written)
            steps = min(self._unread(written, checks=checks), end - len(written))
            self._steps(drafting, row, steps, draws=draws)
            if steps > 1 or checks or self._reads_each:
                ended = self._read(drafting, state, enough)
                continue
            written.append(self.next_scores.fetched(drafting.chosen[-1]) if draws else self.next_scores.row(written).id)
            ended = written[-1] in self.stop_ids
        if drafting.rows:
            self._read(drafting, state, None)
        self.next_scores.tail = written
        return Draft(
            tuple(written[len(text_ids) :]),
            tuple(drafting.read) if self._settings.sampling else None,
            state,
            state.reason,
            self.next_scores.clock_ms - started_ms,
            tuple(drafting.likeliest),
            self.next_scores.banned(len(text_ids), len(written)),
        )

    def close(self) -> None:
        """Nothing runs between two calls."""

    def _unread(self, written: list[int], *, checks: bool) -> int:
        """How many tokens may be drafted before the host reads them; each but the first is fed from the device."""
        most = UNREAD_TOKENS.get(self.session.model.device.type, _ON_A_GPU)
        if most == 1 or self.next_scores.bans is not None or not self.session.can_step or self.session.fed != written:
            return 1  # the sound judges each row by the tokens before it
        return min(most, _CHECKED if checks else _GUESSED if self.next_scores.may_guess else most)

    def _steps(self, drafting: _Drafting, row: torch.Tensor, count: int, *, draws: bool) -> None:
        """Chooses `count` tokens on the device, the first one by its row [1, vocab], each but the last being fed."""
        text_ids = drafting.written[:]
        for at in range(count):
            if at:
                text_ids.append(UNREAD)
                row = self.next_scores.step(text_ids, drafting.chosen[-1])
            if drafting.top_k is not None:
                floor = row.topk(min(drafting.top_k, row.shape[-1])).values[:, -1:]
                row = row.masked_fill(row < floor, -torch.inf)
            drafting.rows.append(row)
            if draws:
                drafting.states.append(self._generator.get_state())
                drafting.chosen.append(draw(row.softmax(dim=-1), self._generator))
            elif count > 1:
                drafting.chosen.append(most_likely(row))

    def _read(self, drafting: _Drafting, state: GateState, enough: Enough | None) -> bool:
        """Fetches the chosen tokens with their evidence; drops those after an end; returns whether there is an end."""
        written, listed = drafting.written, max(CANDIDATES, self._top_n)
        drawn = torch.cat(drafting.chosen) if drafting.states else None
        rows = self.next_scores.figures(drafting.rows, listed, ids=drawn, doubt=True, groups=state.gate.summed)
        known = len(written) - drafting.start - len(state.evidence)  # of these tokens the host has read the first ones
        if len(rows) - known > 1:
            self.next_scores.fill_in([row.token for row in rows[known:-1]])
        kept, ended = 0, False
        for kept, row in enumerate(rows, start=1):
            self.next_scores.require_finite([row])
            unsure = state.add(TokenEvidence.of(row))
            if self._top_n:
                drafting.likeliest.append(named(row.candidates[: self._top_n]))
            if kept > known:
                written.append(row.token)
                ended = row.token in self.stop_ids or (state.stops and unsure)
                if ended or (enough is not None and enough(state)):
                    ended = True
                    break
        if drafting.states and kept < len(rows):
            self._generator.set_state(drafting.states[kept])  # as if the dropped tokens had never been drawn
        drafting.read += drafting.rows[:kept]
        drafting.rows, drafting.chosen, drafting.states = [], [], []
        return ended
