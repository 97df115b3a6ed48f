"""Guesses: tokens that followed the same words in earlier captions. No model has to run for them.

Captions of one model and instruction repeat each other. A guess is the most likely continuation of the longest context,
up to `ORDER` tokens, that was seen before, as in prompt lookup and SuffixDecoding. A guess stops where the chance that
it is right, the product of its tokens' shares, falls below its price in forwards.

N-grams are counted; a suffix automaton would keep every text and could forget none. Counts fade, so that recent
captions count more, and fit into a table of fixed size. For each context the table holds only the most likely next
token, as a branch predictor does (the majority vote of Boyer and Moore), in 16 bytes. Contexts that share a place
displace each other: a wrong guess costs time and never changes a text.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from specdec_cli.types import Decider, Source

ORDER: Final = 6  # tokens of the longest context
SLOTS: Final = 2**17  # of 16 bytes each: 2 MiB
PRICE: Final = 0.1  # of scoring a guessed token beside the next one, in forwards
_DECAY: Final = 0.9  # a context's counts are multiplied by this whenever the context is seen again
_UNSEEN: Final = 0.5  # added to a context's count: a token that was seen once is not certain
OWN_SOURCES: Final[dict[Decider, frozenset[Source]]] = {
    "edge": frozenset({"edge", "accepted"}),
    "cloud": frozenset({"accepted", "corrected", "bonus", "cloud"}),
}
"""The sources of tokens that each model chose, and that it is expected to choose again."""
_START: Final = -1  # in place of a token before the first one


class GuessTable:
    """Counts of next tokens after contexts, for any models and instructions, separated by `key`. Thread-safe."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._lock, self._mask = threading.Lock(), slots - 1
        self._checks, self._tokens = array("I", bytes(4 * slots)), array("i", bytes(4 * slots))
        self._hits, self._counts = array("f", bytes(4 * slots)), array("f", bytes(4 * slots))
        self.learnt = False  # whether any caption was learnt

    def learn(self, key: int, text_ids: Sequence[int], own: Iterable[bool]) -> None:
        """Counts the tokens of a finished caption. `own`: for each token, whether the model of `key` chose it."""
        padded = (_START, *text_ids)
        self.learnt = True
        with self._lock:
            for at, (token, chosen) in enumerate(zip(text_ids, own, strict=True), start=1):
                if chosen:
                    for start in range(max(at - ORDER, 0), at):
                        self._count(hash((key, *padded[start:at])), token)

    def guess(self, key: int, text_ids: Sequence[int], most: int) -> tuple[int, ...]:
        """At most `most` tokens that may follow `text_ids`, as far as they pay."""
        recent = [_START, *text_ids][-ORDER:]
        ids, chance = list[int](), 1.0
        with self._lock:
            while len(ids) < most:
                token, share = self._likeliest(key, recent)
                chance *= share
                if chance < PRICE:
                    break
                ids.append(token)
                recent = [*recent, token][-ORDER:]
        return tuple(ids)

    def _likeliest(self, key: int, recent: Sequence[int]) -> tuple[int, float]:
        """The most likely token after the longest known context, and its share of the tokens seen there."""
        for start in range(len(recent)):
            mixed = hash((key, *recent[start:]))
            slot = mixed & self._mask
            if self._checks[slot] == (mixed >> 32) & 0xFFFFFFFF and self._counts[slot]:
                return self._tokens[slot], self._hits[slot] / (self._counts[slot] + _UNSEEN)
        return 0, 0.0

    def _count(self, mixed: int, token: int) -> None:
        """Counts `token` after the context of that hash."""
        slot, check = mixed & self._mask, (mixed >> 32) & 0xFFFFFFFF
        count, hits = self._counts[slot] * _DECAY, self._hits[slot] * _DECAY
        if self._checks[slot] != check:
            if count > 1:  # another context, seen more than once, holds the place: it fades before it goes
                self._counts[slot], self._hits[slot] = count / 2, hits / 2
                return
            self._checks[slot], count, hits = check, 0.0, 0.0
        if self._tokens[slot] == token:
            hits += 1
        elif hits < max(1.0, count / 3):
            self._tokens[slot], hits = token, 1.0
        self._counts[slot], self._hits[slot] = count + 1, hits


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """The source of one model's guesses, and how many there may be."""

    table: GuessTable
    key: int  # of the model and its instruction
    most: int  # tokens a forward
    longest: int  # tokens of a text

    def room(self, text_ids: Sequence[int]) -> int:
        """How many tokens may be guessed after `text_ids`."""
        return min(self.most, self.longest - 1 - len(text_ids))

    def following(self, text_ids: Sequence[int]) -> tuple[int, ...]:
        """Tokens that may follow `text_ids`."""
        return self.table.guess(self.key, text_ids, self.room(text_ids))


def key_of(weights: str | None, role: str, prompt: Sequence[object]) -> int:
    """A number that identifies a model and its instruction, the same in every process.

    `prompt`: instruction and system prompt, or token ids. Among ids, a run of audio placeholders counts once: the
    length of the recording does not matter.
    """
    told_by = weights, role, *(part for part, _ in groupby(prompt))
    return int.from_bytes(hashlib.blake2b(repr(told_by).encode(), digest_size=8).digest(), "big")
