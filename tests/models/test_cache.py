"""The buffered cache is a `DynamicCache` whose rollback is exact and whose size is bounded."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache

from specdec_cli.errors import CacheError
from specdec_cli.models.cache import BufferedCache
from specdec_cli.models.qwen_omni import QwenOmniThinker
from tests.tiny import tiny_model

TOKENS = tuple(random.Random(0).randrange(256) for _ in range(60))


def _feed(model: QwenOmniThinker, cache: Cache, start: int, end: int) -> torch.Tensor:
    """Logits behind TOKENS[start:end]: [end - start, vocab_size]."""
    return model.logits(model.decode(model.embed(TOKENS[start:end]), start, cache)[0])


def _chunks(seed: int) -> list[tuple[int, int]]:
    rng, cuts = random.Random(seed), [0]
    while cuts[-1] < len(TOKENS):
        cuts.append(min(len(TOKENS), cuts[-1] + rng.choice((1, 1, 2, 5, 17))))
    return list(pairwise(cuts))


@pytest.mark.parametrize("seed", range(6))
def test_logits_equal_those_on_a_dynamic_cache(seed: int) -> None:
    model = tiny_model(seed, layers=1 + seed % 3)
    mine, theirs = BufferedCache(model.layers, len(TOKENS)), DynamicCache()
    for start, end in _chunks(seed):
        torch.testing.assert_close(_feed(model, mine, start, end), _feed(model, theirs, start, end), rtol=0, atol=1e-5)
        assert mine.get_seq_length() == theirs.get_seq_length() == end


@pytest.mark.parametrize("seed", range(6))
def test_truncating_and_going_on_equals_never_having_gone_ahead(seed: int) -> None:
    model, rng = tiny_model(seed), random.Random(seed)
    straight, detour = (BufferedCache(model.layers, len(TOKENS)) for _ in range(2))
    for start, end in _chunks(seed):
        wanted = _feed(model, straight, start, end)
        ahead = min(len(TOKENS), end + rng.randint(1, 9))
        _feed(model, detour, start, ahead)  # too far
        detour.truncate(start + rng.randint(0, end - start))
        detour.truncate(start)
        assert torch.equal(_feed(model, detour, start, end), wanted)
        for mine, other in zip(straight.layers, detour.layers, strict=True):
            assert torch.equal(mine.keys[:, :, :end], other.keys[:, :, :end])
            assert torch.equal(mine.values[:, :, :end], other.values[:, :, :end])


def test_truncating_copies_nothing() -> None:
    model = tiny_model(0)
    cache = BufferedCache(model.layers, 20)
    _feed(model, cache, 0, 15)
    before = [layer.keys.data_ptr() for layer in cache.layers]
    cache.truncate(4)
    _feed(model, cache, 4, 20)
    assert [layer.keys.data_ptr() for layer in cache.layers] == before
    assert cache.get_seq_length() == cache.get_max_length() == 20


@pytest.mark.parametrize("held", [0, 7, 10])
def test_an_overflow_is_an_error_and_changes_nothing(held: int) -> None:
    model = tiny_model(0)
    cache = BufferedCache(model.layers, 10)
    if held:
        _feed(model, cache, 0, held)
    with pytest.raises(CacheError, match="holds 10 positions and 11 were needed"):
        _feed(model, cache, held, 11)
    assert [layer.get_seq_length() for layer in cache.layers] == [held, held]
    if held < 10:
        assert _feed(model, cache, held, 10).shape[0] == 10 - held


def test_rolling_forward_is_refused() -> None:
    model = tiny_model(0)
    cache = BufferedCache(model.layers, 10)
    with pytest.raises(CacheError, match="of 0 positions back to 1"):
        cache.truncate(1)
    _feed(model, cache, 0, 5)
    with pytest.raises(CacheError, match="of 5 positions back to 6"):
        cache.truncate(6)
    cache.truncate(5)
    assert cache.get_seq_length() == 5


def test_a_reset_cache_is_empty() -> None:
    model = tiny_model(0)
    cache = BufferedCache(model.layers, 10)
    first = _feed(model, cache, 0, 8)
    cache.reset()
    assert cache.get_seq_length() == 0
    assert torch.equal(_feed(model, cache, 0, 8), first)


def test_layers_take_the_format_of_the_model() -> None:
    model = tiny_model(0)
    try:
        model.module.bfloat16()
        cache = BufferedCache(model.layers, 10)
        _feed(model, cache, 0, 4)
        assert {layer.keys.dtype for layer in cache.layers} == {torch.bfloat16}
    finally:
        model.module.float()
