"""One model's next-token scores after any prefix of a clip's text. Guesses are scored in the same forward.

If a row of scores is missing, one forward scores it together with guessed tokens after it: the rest of the last draft,
if only the token before it was corrected (a kept tail, as in SpecASR), otherwise guesses from earlier captions. A row
depends on the text alone. So a right guess saves a forward, and a wrong one costs a few rows. The text is
the same either way.

The sound, a processor of its own between the others and temperature, top-k and top-p, bans tokens in a row when the row
is first used: rows behind a wrong guess are never judged. Its bans depend on the row and on the text before it alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import torch

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.decoding.guesses import Guesses
from specdec_cli.decoding.rows import RowFigures, read
from specdec_cli.decoding.scores import LogitsPipeline
from specdec_cli.errors import DecodingError
from specdec_cli.models.session import Session, shared_length
from specdec_cli.types import Candidates

Bans = Callable[[Sequence[int], Candidates], Collection[int]]
"""Which of the likeliest tokens after a text the sound bans."""
JUDGED: Final = 20
"""Likeliest tokens of a row that the sound judges."""


class NextScores:
    """One model's processed scores after each prefix of a clip's text, kept between calls."""

    def __init__(
        self,
        session: Session,
        settings: ScoringConfig,
        stop_ids: Collection[int],
        guesses: Guesses | None = None,
        bans: Bans | None = None,
    ) -> None:
        self.session, self.pipeline, self.bans = session, LogitsPipeline(settings, session), bans
        self._blocked_s = 0.0  # in calls of the session
        self.tail = list[int]()  # the text of the last block, and the block
        self.stop_ids = frozenset(stop_ids)
        self._guesses = guesses if guesses is not None and guesses.most else None
        self._text_ids: list[int] = []  # the text that was scored, guesses included
        self._rows = torch.empty(0)  # [n, vocab]: row i is after `_text_ids[: _start + i]`, before temperature
        self._start = 1  # length of the prefix after which row 0 is; len(_text_ids) + 1 if no row is kept
        self._read = list[RowFigures]()  # the figures of the first rows, once they were fetched
        self._judged = 0  # rows, from the first, in which the sound has banned what it bans
        self._instead = dict[int, int]()  # tokens before a row -> its most likely token, which the sound banned
        self._sure = 0  # leading tokens of `_text_ids` that were not guessed, or were guessed right
        self._stepped = False  # whether the last forward was no prefill
        self._name, self._on_cpu = session.model.name, session.model.device.type == "cpu"

    def after(self, text_ids: Sequence[int], positions: int = 1, *, guessing: bool = True) -> torch.Tensor:
        """Processed scores [positions, vocab] after the last prefixes of `text_ids`; the last row follows all.

        The sound has banned what it bans. Missing rows are scored: the first call of a clip reads its prompt and audio.
        `guessing`: whether to score guesses after `text_ids` with them.
        """
        first = len(text_ids) - positions + 1
        known = self._known(text_ids, first)
        if known < positions:
            guess = self._next_guess(text_ids) if guessing else ()
            scored, passes = [*text_ids, *guess], self.session.work.encoder_passes
            started = time.perf_counter()
            logits = self.session.logits(scored, len(scored) - first - known + 1)
            self._blocked_s += time.perf_counter() - started
            self._stepped = self.session.work.encoder_passes == passes
            rows, old = self.pipeline(scored, logits), slice(first - self._start, first - self._start + known)
            self._keep(scored, torch.cat((self._rows[old], rows)) if known else rows, len(text_ids), old)
            if guess:
                self._count(guessed=len(guess))
        elif len(text_ids) > self._sure:
            self._count(guesses_kept=len(text_ids) - self._sure)
            self._sure = len(text_ids)
        at = first - self._start
        if self.bans is not None and self._judged < at + positions:
            self._judge(text_ids, self.bans, at + positions)
        return self.pipeline.warped(self._rows[at : at + positions])

    def banned(self, start: int, end: int) -> tuple[int | None, ...]:
        """For the tokens `start` to `end` - 1 of the text: the most likely one in its place, if the sound banned it."""
        return tuple(map(self._instead.get, range(start, end)))

    def drop_before(self, text_ids: Sequence[int]) -> None:
        """Drops the scores that no continuation of `text_ids` needs; scores of guesses that may come true stay."""
        end = len(text_ids)
        at = end - self._start
        needed = at >= 0 and end <= len(self._text_ids) and self._text_ids[:end] == list(text_ids)
        # a copy: the kept rows would hold the memory of all
        rows = self._rows[at:].clone() if needed else torch.empty(0)
        self._keep(self._text_ids, rows, self._sure, slice(at, None) if needed else slice(0))

    def learn(self, text_ids: Sequence[int], own: Iterable[bool]) -> None:
        """Learns guesses from a finished caption; `own`: for each token, whether this model chose it."""
        if self._guesses is not None:
            self._guesses.table.learn(self._guesses.key, text_ids, own)

    def row(self, text_ids: Sequence[int]) -> RowFigures:
        """The figures of the row after `text_ids`, which was scored. One fetch takes those of all kept rows.

        Raises ScoresError if the row is not finite.
        """
        at = len(text_ids) - self._start
        self._fetch(at + 1)
        self.require_finite(self._read[at : at + 1])
        return self._read[at]

    def fetched(self, token: torch.Tensor) -> int:
        """A token, int64 [1] on the device, that was drawn."""
        with self.waiting():
            return int(token)

    def figures(self, scores: torch.Tensor | Sequence[torch.Tensor], listed: int, **wanted: Any) -> list[RowFigures]:
        """The figures of rows of scores that `after` gave; see `rows.read`."""
        with self.waiting():
            return read(scores, listed, **wanted)

    def require_finite(self, rows: Iterable[RowFigures]) -> None:
        """Raises ScoresError if one of these rows is not finite."""
        with self.waiting():
            for row in rows:
                row.require_finite(self._name)

    @property
    def may_guess(self) -> bool:
        """Whether tokens may be guessed: a caption was learnt."""
        return self._guesses is not None and self._guesses.table.learnt

    def step(self, text_ids: list[int], token: torch.Tensor) -> torch.Tensor:
        """Processed scores [1, vocab] after `text_ids`, whose last token the host has not read (`UNREAD`).

        `token` is that last token, int64 [1] on the device. `fill_in` must follow before any call but `step`.
        """
        started = time.perf_counter()
        logits = self.session.step(token)
        self._blocked_s += time.perf_counter() - started
        self._stepped = True
        self._keep(text_ids[:], self.pipeline(text_ids, logits, token), len(text_ids))
        return self.pipeline.warped(self._rows)

    def fill_in(self, ids: Sequence[int]) -> None:
        """Fills in the ids of the last tokens that `step` has fed."""
        self._text_ids[-len(ids) :] = ids
        self.session.fill_in(ids)
        self.pipeline.fill_in(ids)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within the block the host fetches figures. On a GPU it waits for forwards: that time is added to the model's.

        If the scores prove not to be finite, the session is closed.
        """
        started = time.perf_counter()
        try:
            yield
        except DecodingError:
            self._drop()
            raise
        if self._on_cpu:
            return
        waited_s = time.perf_counter() - started
        self._blocked_s += waited_s
        self._count(**{"step_ms" if self._stepped else "prefill_ms": waited_s * 1e3})

    @property
    def clock_ms(self) -> float:
        """A clock of the work on this clip. Of calls of the session, it counts only the time of steps, not prefills."""
        return (time.perf_counter() - self._blocked_s) * 1e3 + self.session.work.step_ms

    def _count(self, **more: float) -> None:
        work = self.session.work
        self.session.work = replace(work, **{name: getattr(work, name) + count for name, count in more.items()})

    def _known(self, text_ids: Sequence[int], first: int) -> int:
        """How many rows are kept of those after `text_ids[:first]`, `text_ids[: first + 1]` and so on."""
        if not self._start <= first <= len(self._text_ids):
            return 0
        return max(shared_length(self._text_ids, text_ids) - first + 1, 0)

    def _fetch(self, count: int) -> None:
        """Fetches the figures of the first `count` rows, unless they are there: those of all kept rows at once."""
        if len(self._read) < count:
            with self.waiting():
                self._read += read(self._rows[len(self._read) :], JUDGED if self.bans else 0)

    def _judge(self, text_ids: Sequence[int], bans: Bans, end: int) -> None:
        """Lets the sound ban tokens in the rows before `end`, each by the prefix of `text_ids` that it follows.

        One fetch takes what it judges of all kept rows; there is another one where it bans a row's most likely token.
        A row that is not finite stays: a text that needs it fails.
        """
        self._fetch(end)
        for at in range(self._judged, end):
            length = self._start + at
            found = self._read[at]
            self._instead.pop(length, None)
            if not found.is_finite or not (banned := bans(text_ids[:length], found.candidates)):
                continue
            self._rows = self._rows.clone()  # callers hold the old rows
            self._rows[at, list(banned)] = -torch.inf
            if found.id in banned:
                self._instead[length] = found.id
                with self.waiting():
                    (self._read[at],) = read(self._rows[at : at + 1], JUDGED)
        self._judged = end

    def _drop(self) -> None:
        """Closes the session: neither rows nor cache can be used any more."""
        self.session.close()
        self._keep([], torch.empty(0), 0)

    def _keep(self, text_ids: list[int], rows: torch.Tensor, sure: int, old: slice = slice(0)) -> None:
        """Replaces the rows; the first ones are the `old` ones."""
        self._text_ids, self._rows, self._sure = text_ids, rows, sure
        self._start = len(text_ids) + 1 - rows.shape[0]
        self._read = self._read[old]
        self._judged = len(range(self._judged)[old])

    def _next_guess(self, text_ids: Sequence[int]) -> tuple[int, ...]:
        """Tokens that may follow `text_ids`; none after a stop id."""
        if (guesses := self._guesses) is None or not (guesses.table.learnt or len(text_ids) < len(self.tail)):
            return ()
        end = len(text_ids)
        if 0 < end < len(self.tail) and shared_length(self.tail, text_ids) >= end - 1:
            guess = tuple(self.tail[end : end + guesses.room(text_ids)])
        else:
            guess = guesses.following(text_ids)
        stops = (index for index, id_ in enumerate(guess) if id_ in self.stop_ids)
        return guess[: next(stops, len(guess))]
