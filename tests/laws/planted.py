"""Errors that are planted on purpose, to see that the laws find them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from threading import Lock
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from transformers.cache_utils import Cache

from specdec_cli.decoding.guesses import GuessTable
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.rows import RowFigures
from specdec_cli.decoding.scores import History
from specdec_cli.labels.class_words import ClassWords, Naming
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.session import Session
from specdec_cli.models.slots import LayerMemory, Slots
from specdec_cli.prompts import Language
from tests.laws.tolerance import LawBroken

NOISE = 1e-3
Tried = TypeVar("Tried")


def found(
    check: Callable[[Tried], object], plant: Callable[[Tried], AbstractContextManager[object]], cases: Iterable[Tried]
) -> bool:
    """Whether the check of a law finds an error that is planted, in one of the cases."""
    for number, case in enumerate(cases, start=1):
        try:
            with plant(case):
                check(case)
        except LawBroken as broken:
            print(number, broken)
            return True
    return False


@contextmanager
def noise(model: AudioLM, size: float = NOISE, seed: int = 0) -> Iterator[None]:
    """Adds noise to a model's scores, of `size` standard deviations of the row (at least 1)."""
    generator, forward = torch.Generator().manual_seed(seed), model.forward

    def noisy(*args: Any, **kwargs: Any) -> Any:
        logits, encoder_ms, passes = forward(*args, **kwargs)
        spread = logits.std(dim=-1, keepdim=True).clamp(min=1.0)
        off = torch.randn(logits.shape, generator=generator)
        return logits + size * spread * off.to(logits.device), encoder_ms, passes

    model.forward = noisy
    try:
        yield
    finally:
        del model.forward


def instead(owner: type, name: str, wrong: Callable[..., Any]) -> AbstractContextManager[object]:
    """Puts a wrong method in the place of a class's own, which it gets first."""
    right = getattr(owner, name)
    return patch.object(owner, name, lambda *args, **kwargs: wrong(right, *args, **kwargs))


@contextmanager
def misplaced_guess(by: int) -> Iterator[None]:
    """Takes the row of a token that was guessed from a place that is off by so many."""

    def at(scores: NextScores, text: Sequence[int]) -> int:
        place = len(text) - scores._start + by
        return place if 0 < place < len(scores._rows) else 0

    def wrong_row(row: Callable[..., RowFigures], scores: NextScores, text: Sequence[int]) -> RowFigures:
        found = row(scores, text)
        return scores._read[at(scores, text)] if at(scores, text) else found

    def wrong(
        after: Callable[..., torch.Tensor], scores: NextScores, text: Sequence[int], positions: int = 1, **how: bool
    ) -> torch.Tensor:
        found, place = after(scores, text, positions, **how), at(scores, text)
        return scores._rows[place : place + 1] if positions == 1 and place else found

    with instead(NextScores, "after", wrong), instead(NextScores, "row", wrong_row):
        yield


def trusted_guess() -> AbstractContextManager[object]:
    """Takes a guessed token for the one that was chosen: rows are known by all but the last token of a text."""

    def wrong(known: Callable[..., int], scores: NextScores, text: Sequence[int], first: int) -> int:
        return known(scores, [*text[:-1], *scores._text_ids[len(text) - 1 : len(text)]], first)

    return instead(NextScores, "_known", wrong)


def forgotten_token() -> AbstractContextManager[object]:
    """Remembers of every caption what follows a token less."""

    def wrong(
        learn: Callable[..., None], table: GuessTable, key: int, text: Sequence[int], own: Iterable[bool]
    ) -> None:
        learn(table, key, text[1:], list(own)[1:])

    return instead(GuessTable, "learn", wrong)


def rollback(kept: int) -> AbstractContextManager[object]:
    """Rolls every cache back by one token too few (`kept` = 1) or too many (-1)."""

    def wrong(crop: Callable[..., None], cache: Cache, length: int) -> None:
        assert length < 0, "a crop says how many tokens go"
        if length + kept < 0:
            crop(cache, length + kept)

    return instead(Cache, "crop", wrong)


def misplaced_start(by: int) -> AbstractContextManager[object]:
    """Takes every slot for that many tokens longer than it is when a recorded forward begins."""

    def wrong(padded: Callable[..., torch.Tensor], slots: Slots, rows: Any, shape: Any) -> torch.Tensor:
        return padded(slots, [(slot, start + by, *ids) for slot, start, *ids in rows], shape)

    return instead(Slots, "_padded", wrong)


def neighbours_slot() -> AbstractContextManager[object]:
    """Reads every slot's keys where its neighbour's are, in a recorded forward."""

    def wrong(update: Callable[..., Any], memory: LayerMemory, *args: Any, **kwargs: Any) -> Any:
        keys, values = update(memory, *args, **kwargs)
        if memory._slots.count == 1:
            return torch.zeros_like(keys), values
        return keys.roll(1, 0) if len(keys) > 1 else memory.keys[:1, :, : keys.shape[2]], values

    return instead(LayerMemory, "update", wrong)


def stale_input() -> AbstractContextManager[object]:
    """Every third recorded forward reads what the one before it read."""
    calls, lock = count(1), Lock()

    def wrong(padded: Callable[..., torch.Tensor], slots: Slots, rows: Any, shape: Any) -> torch.Tensor:
        with lock:  # models of several threads are served at a time
            stale = next(calls) % 3 == 0 and rows
        return slots._inputs[shape.clips, shape.tokens].clone() if stale else padded(slots, rows, shape)

    return instead(Slots, "_padded", wrong)


def misfed() -> AbstractContextManager[object]:
    """Feeds the model another token than the one that was chosen."""
    return instead(Session, "step", lambda step, session, token: step(session, token ^ 1))


def unfollowed() -> AbstractContextManager[object]:
    """Leaves what only the device knows out of the history that penalties read."""

    def wrong(follow: Callable[..., None], history: History, text: Any, last: torch.Tensor | None = None) -> None:
        follow(history, text, None if last is None else last * 0)

    return instead(History, "follow", wrong)


def banned_noun() -> AbstractContextManager[object]:
    """Judges what follows a word for that word: its noun."""

    def wrong(naming: Callable[..., Naming], words: ClassWords, text: Any, token: int, language: Language) -> Naming:
        found = naming(words, text, token, language)
        return naming(words, text[:-1], text[-1], language) if text and not found else found

    return instead(ClassWords, "_naming", wrong)


def stale_history() -> AbstractContextManager[object]:
    """Judges a row by the history of the row before it."""
    return instead(Grounding, "banned", lambda banned, sound, text, likeliest: banned(sound, text[:-1], likeliest))


def row_behind_a_guess() -> AbstractContextManager[object]:
    """Takes new rows for judged ones, where rows behind a guess were."""

    def wrong(keep: Callable[..., None], scores: NextScores, *given: Any) -> None:
        judged = scores._judged
        keep(scores, *given)
        scores._judged = min(judged, len(scores._rows))

    return instead(NextScores, "_keep", wrong)


def ban_of_the_edge() -> AbstractContextManager[object]:
    """Applies to the cloud what was banned for the edge after the same text."""
    known = dict[tuple[int, ...], frozenset[int]]()

    def wrong(banned: Callable[..., frozenset[int]], sound: Grounding, text: Any, likeliest: Any) -> frozenset[int]:
        return known.setdefault(tuple(text), banned(sound, text, likeliest))

    return instead(Grounding, "banned", wrong)
