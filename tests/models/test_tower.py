"""The exact tower hears what transformers' own hears, and the same with any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from specdec_cli.models.qwen_omni import QwenOmniThinker
from specdec_cli.models.tower import ExactTower
from tests.mini_pair import mini_pair, voice
from tests.tiny import tiny_model


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


def theirs(model: QwenOmniThinker, values: torch.Tensor) -> torch.Tensor:
    tower: Any = model.module.model.audio_tower
    heard: torch.Tensor = tower(values, feature_lens=torch.tensor([values.shape[1]])).last_hidden_state
    return heard


@torch.inference_mode()
@pytest.mark.parametrize("seed", range(4))
def test_of_windows_it_hears_what_the_library_hears(seed: int) -> None:
    model = tiny_model(seed)
    module = model.module.model.audio_tower
    ours = ExactTower(module)
    generator = torch.Generator().manual_seed(seed)
    for frames in (4, 10, 19, 100, 199, 200, 201, 203, 400, 401, 655):
        values = torch.randn(module.num_mel_bins, frames, generator=generator)
        torch.testing.assert_close(ours(values), theirs(model, values), rtol=1e-4, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("role", ["edge", "cloud"])
def test_threads_change_no_bit(role: str) -> None:
    model = getattr(mini_pair(), role)
    assert model.steady_encoder
    for seconds in (0.1, 0.14, 0.18, 0.22, 0.34, 0.41, 0.5, 0.7, 1.03, 1.5, 2.27, 3.9):
        features = model.features(voice(1, seconds))
        heard = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            heard.append(model.encode(features))
        assert torch.equal(heard[0], heard[1]), seconds
        assert torch.equal(heard[0], heard[2]), seconds
        torch.testing.assert_close(heard[0], theirs(model, features.values), rtol=1e-3, atol=2e-4)


def test_towers_that_would_not_be_exact_are_left_to_the_library() -> None:
    module = tiny_model(0).module.model.audio_tower
    assert module.config.d_model // module.config.encoder_attention_heads == 8
    assert not ExactTower.fits(module)
    assert ExactTower.fits(mini_pair().edge.module.model.audio_tower)  # type: ignore[union-attr]
