"""One model's next-token scores after any prefix of a clip's text. Guesses are scored in the same forward.

If a row of scores is missing, one forward scores it together with guessed tokens after it: the rest of the last draft,
if only the token before it was corrected (a kept tail, as in SpecASR), otherwise guesses from earlier captions. A row
depends on the text alone. So a guess that stands saves a forward, and one that does not costs a few rows. The text is
the same either way.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import torch

from specdec_cli.config.decoding_schema import ScoringConfig
from specdec_cli.decoding.guesses import NO_GUESS, Guess, Guesses
from specdec_cli.decoding.pick import ScoreReading, choices, readings
from specdec_cli.decoding.scores import LogitsPipeline
from specdec_cli.errors import DecodingError
from specdec_cli.models.session import Session, shared_length

_STANDS: Final = 0.9  # chance that a token of a kept tail stands, if all before it do


class NextScores:
    """One model's processed scores after each prefix of a clip's text, kept between calls."""

    def __init__(
        self, session: Session, settings: ScoringConfig, stop_ids: Collection[int], guesses: Guesses | None = None
    ) -> None:
        self.session, self.pipeline = session, LogitsPipeline(settings, session)
        self._blocked_s = 0.0  # in calls of the session
        self.guessed = self.guesses_kept = 0  # tokens; each that was kept saved a forward
        self.tail = list[int]()  # the text of the last block, and the block
        self.stop_ids, self._guess = frozenset(stop_ids), NO_GUESS
        self._guesses = guesses if guesses is not None and guesses.most else None
        self._text: list[int] = []  # the text that was scored, guesses included
        self._rows = torch.empty(0)  # [n, vocab]: row i is after `_text[: _start + i]`
        self._start = 1  # tokens of `_text` before the first row; without rows, one more than it has
        self._choices = list[int]()  # the most likely token of each row, once it was fetched
        self._sure = 0  # tokens of `_text` that are no guesses, or guesses that stood
        self._stepped = False  # whether the last forward was no prefill
        # of a last forward whose time is not recorded yet: tokens guessed in it, and ms of all steps before it
        self._untimed: tuple[int, float] | None = None
        self._name, self._on_cpu = session.model.name, session.model.device.type == "cpu"

    def after(self, text: Sequence[int], positions: int = 1, *, guesses: bool = True) -> torch.Tensor:
        """Processed scores [positions, vocab] after the last prefixes of `text`; the last row follows the whole text.

        Missing rows are scored. `guesses`: whether to score guesses after `text` with them.
        """
        first = len(text) - positions + 1
        known = self._known(text, first)
        if known < positions:
            self._score(text, first, known, self._next_guess(text) if guesses else NO_GUESS)
        elif len(text) > self._sure:
            self.guesses_kept += len(text) - self._sure
            self._sure = len(text)
        at = first - self._start
        return self._rows[at : at + positions]

    def drop_before(self, text: Sequence[int]) -> None:
        """Drops the scores that no continuation of `text` needs; scores of guesses that may come true stay."""
        end = len(text)
        needed = self._start <= end <= len(self._text) and self._text[:end] == list(text)
        # a copy: the kept rows would hold the memory of all
        rows = self._rows[end - self._start :].clone() if needed else torch.empty(0)
        self._keep(self._text, rows, self._sure)

    def learn(self, text: Sequence[int], own: Iterable[bool]) -> None:
        """Counts the finished caption for guesses; `own` says for each token whether this model chose it."""
        if self._guesses is not None:
            self._guesses.table.learn(self._guesses.key, text, own)

    def choice(self, text: Sequence[int]) -> int:
        """The most likely token after `text`, which was scored. One fetch takes the tokens of all kept rows."""
        if not self._choices:
            with self.waiting():
                self._choices = choices(self._rows, self._name)
        return self._choices[len(text) - self._start]

    def drawn(self, scores: torch.Tensor, chosen: torch.Tensor) -> int:
        """The id of a token, int64 [1] on the device, that was drawn by scores [1, vocab]."""
        with self.waiting():
            return choices(scores, self._name, chosen)[0]

    def readings(self, scores: torch.Tensor, passes: torch.Tensor | None, listed: int) -> list[ScoreReading]:
        """The figures that a verdict needs of rows of scores; see `pick.readings`."""
        with self.waiting():
            return readings(scores, self._name, passes, listed)

    @property
    def guesses(self) -> bool:
        """Whether tokens may be guessed: a caption was learnt."""
        return self._guesses is not None and self._guesses.table.learnt

    def step(self, text: list[int], token: torch.Tensor) -> torch.Tensor:
        """Processed scores [1, vocab] after `text`, whose last token the host has not read (`UNREAD`).

        `token` is that last token, int64 [1] on the device. `fill_in` must follow before any call but `step`.
        """
        self._settle_guess()
        started = time.perf_counter()
        logits = self.session.step(token)
        self._blocked_s += time.perf_counter() - started
        self._stepped, self._untimed = True, None
        self._keep(text[:], self.pipeline(text, logits, token), len(text))
        return self._rows

    def fill_in(self, ids: Sequence[int]) -> None:
        """Fills in the ids of the last tokens that `step` has fed."""
        self._text[-len(ids) :] = ids
        self.session.fill_in(ids)
        self.pipeline.fill_in(ids)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within the block the host fetches figures. On a GPU it waits for forwards: that time counts as the model's.

        If the scores prove not to be finite, the session is closed.
        """
        started = time.perf_counter()
        try:
            yield
        except DecodingError:  # not finite: neither the rows nor the cache can be used any more
            self.session.close()
            self._keep([], torch.empty(0), 0)
            self._guess = NO_GUESS
            raise
        if self._on_cpu:
            return
        waited_s, work = time.perf_counter() - started, self.session.work
        self._blocked_s += waited_s
        field = "step_ms" if self._stepped else "prefill_ms"
        self.session.work = replace(work, **{field: getattr(work, field) + waited_s * 1e3})
        self._time_guess()

    @property
    def clock_ms(self) -> float:
        """A clock of the work on this clip. Of calls of the session, it counts only the time of steps, not prefills."""
        return (time.perf_counter() - self._blocked_s) * 1e3 + self.session.work.step_ms

    def _known(self, text: Sequence[int], first: int) -> int:
        """How many rows are kept of those after `text[:first]`, `text[: first + 1]` and so on."""
        if not self._start <= first <= len(self._text):
            return 0
        return max(shared_length(self._text, text) - first + 1, 0)

    def _score(self, text: Sequence[int], first: int, known: int, guess: Guess) -> None:
        at, before = first - self._start, self.session.work
        scored = [*text, *guess.ids]
        started = time.perf_counter()
        logits = self.session.logits(scored, len(scored) - first - known + 1)
        self._blocked_s += time.perf_counter() - started
        rows = self.pipeline(scored, logits)
        self._keep(scored, torch.cat((self._rows[at : at + known], rows)) if known else rows, len(text))
        self._guess = guess
        self.guessed += len(guess.ids)
        self._stepped = self.session.work.encoder_passes == before.encoder_passes
        self._untimed = (len(guess.ids), before.step_ms) if len(text) == first and self._stepped else None
        if self._on_cpu:
            self._time_guess()

    def _time_guess(self) -> None:
        """Records the time of the last forward of one token and its guesses; on a GPU it ends with a fetch."""
        if self._guesses is not None and self._untimed is not None:
            guessed, before_ms = self._untimed
            self._guesses.costs.record(guessed, self.session.work.step_ms - before_ms)
        self._untimed = None

    def _settle_guess(self) -> None:
        """Records how many of the last guessed tokens stood, before other scores replace theirs."""
        if self._guesses is not None and self._guess.ids:
            stood = self._sure - len(self._text) + len(self._guess.ids)
            self._guesses.costs.learn(sum(self._guess.chances), stood)
        self._guess = NO_GUESS

    def _keep(self, text: list[int], rows: torch.Tensor, sure: int) -> None:
        self._text, self._rows, self._sure = text, rows, sure
        self._start = len(text) + 1 - rows.shape[0]
        self._choices = []

    def _next_guess(self, text: Sequence[int]) -> Guess:
        """Tokens that may follow `text`, as many as pay."""
        if (guesses := self._guesses) is None or not (guesses.table.learnt or len(text) < len(self.tail)):
            return NO_GUESS
        self._settle_guess()
        end, most = len(text), guesses.room(text)
        if end < len(self.tail) and end and shared_length(self.tail, text) >= end - 1:
            ids = tuple(self.tail[end : end + most])
            guess = Guess(ids, tuple(_STANDS ** (1 + index) for index in range(len(ids))))
        else:
            guess = guesses.after(text)
        if not guess.ids:
            return NO_GUESS
        stops = (index for index, id_ in enumerate(guess.ids) if id_ in self.stop_ids)  # nothing follows a stop id
        reading = not self.session.is_read  # beside the rows of a prompt, those of guesses cost next to nothing
        pay = len(guess.ids) if reading else guesses.costs.worth(guess.chances)
        worth = min(pay, next(stops, most))
        return Guess(guess.ids[:worth], guess.chances[:worth])
