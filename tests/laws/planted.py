"""Errors that are planted on purpose, to see that the laws find them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from specdec_cli.types import Candidates
from tests.laws.tolerance import LawBroken

NOISE = 1e-3
Tried = TypeVar("Tried")


def found(
    check: Callable[[Tried], object], plant: Callable[[Tried], AbstractContextManager[None]], cases: Iterable[Tried]
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
    generator = torch.Generator().manual_seed(seed)

    def noisy(forward: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            logits, encoder_ms, passes = forward(*args, **kwargs)
            spread = logits.std(dim=-1, keepdim=True).clamp(min=1.0)
            off = torch.randn(logits.shape, generator=generator)
            return logits + size * spread * off.to(logits.device), encoder_ms, passes

        return wrapped

    model.forward = noisy(model.forward)
    try:
        yield
    finally:
        del model.forward


@contextmanager
def misplaced_guess(by: int) -> Iterator[None]:
    """Takes the row of a token that was guessed from a place that is off by so many."""
    after, row = NextScores.after, NextScores.row

    def wrong_row(scores: NextScores, text: Sequence[int]) -> RowFigures:
        found, at = row(scores, text), len(text) - scores._start + by
        return scores._read[at] if 0 < at < len(scores._rows) else found

    def wrong(scores: NextScores, text: Sequence[int], positions: int = 1, *, guessing: bool = True) -> torch.Tensor:
        found = after(scores, text, positions, guessing=guessing)
        at = len(text) - scores._start + by
        return scores._rows[at : at + 1] if positions == 1 and 0 < at < len(scores._rows) else found

    with patch.object(NextScores, "after", wrong), patch.object(NextScores, "row", wrong_row):
        yield


@contextmanager
def trusted_guess() -> Iterator[None]:
    """Takes a guessed token for the one that was chosen: rows are known by all but the last token of a text."""
    known = NextScores._known

    def wrong(scores: NextScores, text: Sequence[int], first: int) -> int:
        return known(scores, [*text[:-1], *scores._text_ids[len(text) - 1 : len(text)]], first)

    with patch.object(NextScores, "_known", wrong):
        yield


@contextmanager
def forgotten_token() -> Iterator[None]:
    """Remembers of every caption what follows a token less."""
    learn = GuessTable.learn

    def wrong(table: GuessTable, key: int, text: Sequence[int], own: Iterable[bool]) -> None:
        learn(table, key, text[1:], list(own)[1:])

    with patch.object(GuessTable, "learn", wrong):
        yield


@contextmanager
def rollback(kept: int) -> Iterator[None]:
    """Rolls every cache back by one token too few (`kept` = 1) or too many (-1)."""
    crop = Cache.crop

    def wrong(cache: Cache, length: int) -> None:
        assert length < 0, "a crop says how many tokens go"
        if length + kept < 0:
            crop(cache, length + kept)

    with patch.object(Cache, "crop", wrong):
        yield


@contextmanager
def misplaced_start(by: int) -> Iterator[None]:
    """Takes every slot for that many tokens longer than it is when a recorded forward begins."""
    padded = Slots._padded

    def wrong(slots: Slots, rows: Any, shape: Any) -> torch.Tensor:
        return padded(slots, [(slot, start + by, *ids) for slot, start, *ids in rows], shape)

    with patch.object(Slots, "_padded", wrong):
        yield


@contextmanager
def neighbours_slot() -> Iterator[None]:
    """Reads every slot's keys where its neighbour's are, in a recorded forward."""
    update = LayerMemory.update

    def wrong(memory: LayerMemory, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = update(memory, *args, **kwargs)
        if memory._slots.count == 1:
            return torch.zeros_like(keys), values
        return keys.roll(1, 0) if len(keys) > 1 else memory.keys[:1, :, : keys.shape[2]], values

    with patch.object(LayerMemory, "update", wrong):
        yield


@contextmanager
def stale_input() -> Iterator[None]:
    """Every third recorded forward reads what the one before it read."""
    padded, calls, lock = Slots._padded, 0, Lock()

    def wrong(slots: Slots, rows: Any, shape: Any) -> torch.Tensor:
        nonlocal calls
        with lock:  # models of several threads are served at a time
            calls += 1
            stale = rows and calls % 3 == 0
        return slots._inputs[shape.clips, shape.tokens].clone() if stale else padded(slots, rows, shape)

    with patch.object(Slots, "_padded", wrong):
        yield


@contextmanager
def misfed() -> Iterator[None]:
    """Feeds the model another token than the one that was chosen."""
    step = Session.step
    with patch.object(Session, "step", lambda session, token: step(session, token ^ 1)):
        yield


@contextmanager
def unfollowed() -> Iterator[None]:
    """Leaves what only the device knows out of the history that penalties read."""
    follow = History.follow

    def wrong(history: History, text: Sequence[int], last: torch.Tensor | None = None) -> None:
        follow(history, text, None if last is None else last * 0)

    with patch.object(History, "follow", wrong):
        yield


@contextmanager
def banned_noun() -> Iterator[None]:
    """Judges what follows a word for that word: its noun."""
    naming = ClassWords._naming

    def wrong(words: ClassWords, text: tuple[int, ...], token: int, language: Language) -> Naming:
        found = naming(words, text, token, language)
        return naming(words, text[:-1], text[-1], language) if text and not found else found

    with patch.object(ClassWords, "_naming", wrong):
        yield


@contextmanager
def stale_history() -> Iterator[None]:
    """Judges a row by the history of the row before it."""
    banned = Grounding.banned

    def wrong(sound: Grounding, text: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        return banned(sound, text[:-1], likeliest)

    with patch.object(Grounding, "banned", wrong):
        yield


@contextmanager
def row_behind_a_guess() -> Iterator[None]:
    """Takes new rows for judged ones, where rows behind a guess were."""
    keep = NextScores._keep

    def wrong(scores: NextScores, *given: Any) -> None:
        judged = scores._judged
        keep(scores, *given)
        scores._judged = min(judged, len(scores._rows))

    with patch.object(NextScores, "_keep", wrong):
        yield


@contextmanager
def ban_of_the_edge() -> Iterator[None]:
    """Applies to the cloud what was banned for the edge after the same text."""
    banned, known = Grounding.banned, dict[tuple[int, ...], frozenset[int]]()

    def wrong(sound: Grounding, text: Sequence[int], likeliest: Candidates) -> frozenset[int]:
        return known.setdefault(tuple(text), banned(sound, text, likeliest))

    with patch.object(Grounding, "banned", wrong):
        yield
