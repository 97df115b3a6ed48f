"""Errors that are planted on purpose, to see that the laws find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from transformers.cache_utils import Cache

from specdec_cli.models.audio_lm import AudioLM

NOISE = 1e-3


@contextmanager
def noise(model: AudioLM, size: float = NOISE) -> Iterator[None]:
    """Adds noise to a model's scores, of `size` standard deviations of the row (at least 1)."""
    generator = torch.Generator().manual_seed(0)

    def noisy(forward: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            logits, encoder_ms, passes = forward(*args, **kwargs)
            spread = logits.std(dim=-1, keepdim=True).clamp(min=1.0)
            off = torch.randn(logits.shape, generator=generator)
            return logits + size * spread * off.to(logits.device), encoder_ms, passes

        return wrapped

    model.forward = noisy(model.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.forward


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
