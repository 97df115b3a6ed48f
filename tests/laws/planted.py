"""Errors that are planted on purpose, to see that the laws find them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from unittest.mock import patch

import torch
from transformers.cache_utils import Cache

from specdec_cli.decoding.guesses import GuessTable
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.rows import RowFigures
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.slots import LayerMemory, Slots

NOISE = 1e-3


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

    def wrong(scores: NextScores, text: Sequence[int], positions: int = 1, *, guesses: bool = True) -> torch.Tensor:
        found = after(scores, text, positions, guesses=guesses)
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
