"""What one model would write next, after any prefix of a clip's text; guessed tokens are scored along.

Where a row is needed that is not there, tokens that may follow are guessed and scored with it in one forward: those of
the last draft, if only the token before them was corrected (a kept tail, as in SpecASR), otherwise what earlier
captions would continue with. A row depends on the text alone, so a guess saves a forward where the text turns out to
be the one that it was scored for, and costs a few rows where not. The text is the same either way.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import torch

from specdec_cli.config.schema import ScoringConfig
from specdec_cli.decoding.lookup import NO_GUESS, Guess, Guesses
from specdec_cli.decoding.scores import LogitsPipeline
from specdec_cli.models.session import Session

_STANDS: Final = 0.9  # chance that a token of a kept tail stands, if those before it do


class Rows:
    """Processed scores of one model for what follows each prefix of a clip's text, kept between calls."""

    def __init__(
        self, session: Session, settings: ScoringConfig, stop_ids: Collection[int], guesses: Guesses | None = None
    ) -> None:
        self.session, self.pipeline = session, LogitsPipeline(settings, session)
        self._blocked_s = 0.0  # in calls of the session
        self.guessed = self.guesses_kept = 0  # tokens; each that was kept saved a forward
        self.tail: Sequence[int] = ()  # the text of the last block, and the block
        self.stop_ids, self._guess = frozenset(stop_ids), NO_GUESS
        self._guesses = guesses if guesses is not None and guesses.most else None
        self._text: list[int] = []  # what was scored, guesses included
        self._logits = torch.empty(0)  # [n, vocab]: row i is after `_text[: len(_text) - n + 1 + i]`
        self._sure = 0  # tokens of `_text` that are no guesses, or have stood

    def after(self, text: Sequence[int], positions: int = 1, *, guesses: bool = True) -> torch.Tensor:
        """[positions, vocab] after the last prefixes of `text`, scored where they are missing; the last follows all.

        `guesses`: whether tokens that follow `text` may be needed.
        """
        first = len(text) - positions + 1
        known = self._known(text, first)
        if known < positions:
            self._score(text, first, known, self._next_guess(text) if guesses else NO_GUESS)
        elif len(text) > self._sure:
            self.guesses_kept += len(text) - self._sure
            self._sure = len(text)
        at = first - self._start
        return self._logits[at : at + positions]

    def drop_before(self, text: Sequence[int]) -> None:
        """Drops the scores that no continuation of `text` needs: what stays are those of guesses that may come true."""
        end = len(text)
        needed = self._start <= end <= len(self._text) and self._text[:end] == list(text)
        # a copy: the kept rows would hold the memory of all
        self._logits = self._logits[end - self._start :].clone() if needed else torch.empty(0)

    def learn(self, text: Sequence[int], own: Iterable[bool]) -> None:
        """Takes in the finished caption; `own` says of each token whether this model chose it."""
        if self._guesses is not None:
            self._guesses.lookup.learn(self._guesses.key, text, own)

    def forwards(self, text: Sequence[int]) -> int:
        """In how many this model alone would have written a caption that has not been learnt."""
        count, at = 0, 0
        while at < len(text):
            guess = () if self._guesses is None else self._guesses.after(text[:at]).ids
            pairs = enumerate(zip(guess, text[at:], strict=False))
            count, at = count + 1, at + 1 + next((n for n, (id_, own) in pairs if id_ != own), len(guess))
        return count

    @property
    def clock_ms(self) -> float:
        """A clock of the work on this clip: of the session's calls, it counts the steps' own time alone."""
        return (time.perf_counter() - self._blocked_s) * 1e3 + self.session.work.step_ms

    @property
    def _start(self) -> int:
        """Tokens that the first row follows."""
        return len(self._text) + 1 - len(self._logits)

    def _known(self, text: Sequence[int], first: int) -> int:
        """How many rows are there of those after `first` and more tokens of `text`."""
        if not self._start <= first <= len(self._text):
            return 0
        ends = range(len(text), first - 1, -1)
        return next((end - first + 1 for end in ends if self._text[:end] == list(text[:end])), 0)

    def _score(self, text: Sequence[int], first: int, known: int, guess: Guess) -> None:
        at, before = first - self._start, self.session.work
        scored = [*text, *guess.ids]
        started = time.perf_counter()
        logits = self.session.logits(scored, len(scored) - first - known + 1)
        self._blocked_s += time.perf_counter() - started
        rows = self.pipeline(scored, logits)
        self._logits = torch.cat((self._logits[at : at + known], rows)) if known else rows
        self._text, self._sure, self._guess = scored, len(text), guess
        self.guessed += len(guess.ids)
        done = self.session.work
        if self._guesses is not None and len(text) == first and done.encoder_passes == before.encoder_passes:
            self._guesses.costs.took(len(guess.ids), done.step_ms - before.step_ms)

    def _next_guess(self, text: Sequence[int]) -> Guess:
        """What may follow `text`, as far as it pays."""
        if (guesses := self._guesses) is None:
            return NO_GUESS
        if self._guess.ids:
            guesses.costs.learn(sum(self._guess.chances), self._sure - len(self._text) + len(self._guess.ids))
        end, most = len(text), guesses.room(text)
        if end < len(self.tail) and list(self.tail[: end - 1]) == list(text[:-1]) and end:
            ids = tuple(self.tail[end : end + most])
            guess = Guess(ids, tuple(_STANDS ** (1 + index) for index in range(len(ids))))
        else:
            guess = guesses.after(text)
        if not guess.ids:
            return NO_GUESS
        stops = (index for index, id_ in enumerate(guess.ids) if id_ in self.stop_ids)  # nothing follows one
        reading = self.session.cache is None  # among the rows of a prompt, those of guesses cost next to nothing
        pay = len(guess.ids) if reading else guesses.costs.worth(guess.chances)
        worth = min(pay, next(stops, most))
        return Guess(guess.ids[:worth], guess.chances[:worth])
