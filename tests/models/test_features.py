"""Features and audio embeddings at the clip's own length equal transformers' own at the padded window.

Three front ends: the tests' tiny one, the published one, and one whose attention window is the whole clip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from specdec_cli.errors import AudioContentError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import QwenOmni
from tests.models.hub_numbers import audio_model
from tests.tiny import tiny_clip

TINY, HUB, WHOLE = (16, 30, 100), (128, 300, 100), (80, 30, 1500)
WINDOW = 30 * 16000
# around every stride (160, 320, 640), around the tower's windows (2 s), and at the end of the extractor's window,
# where it sees a reflection of the clip instead of zeros
SHORT = (1, 159, 160, 161, 320, 321, 480, 481, 640, 641, 1279, 1280, 1281, 1600, 1601)
MIDDLE = (7919, 15999, 16000, 16037, 31999, 32000, 32001, 32160, 63999, 64001, 100_003)
LONG = tuple(WINDOW - n for n in (1000, 801, 800, 799, 321, 320, 201, 200, 161, 160, 159, 41, 40, 39, 1, 0))


def _speechlike(samples: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """A noisy glide that gets louder, so that its end holds the maximum."""
    clip = tiny_clip(seed, (samples + 1) / 16000)[:samples]
    assert len(clip) == samples
    return (clip * np.linspace(0.01, 1, samples)).astype(np.float32)


def _reference(model: AudioLM, clip: npt.NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' features [1, mel bins, frames of the window] and their mask."""
    found: Any = model.processor.parts.feature_extractor(
        clip, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt"
    )
    return found.input_features, found.attention_mask


def _audio_tokens(frames: int) -> int:
    return QwenOmni().audio_tokens(frames)


def _features(model: AudioLM, clip: npt.NDArray[np.float32]) -> torch.Tensor:
    """Features [1, mel bins, frames] of a prompt; its mask is all ones."""
    audio = model.processor.prompt(clip, "x").audio
    values, mask = audio["input_features"], audio["feature_attention_mask"]
    assert mask.shape == (1, values.shape[-1])
    assert bool(mask.all())
    return values


def _encoded(model: AudioLM, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    mask = torch.ones(1, values.shape[-1], dtype=torch.long) if mask is None else mask
    encoded: torch.Tensor = model.module.get_audio_features(values, feature_attention_mask=mask).last_hidden_state
    return encoded


def _assert_equal(model: AudioLM, clip: npt.NDArray[np.float32], tower: bool) -> None:
    mine = _features(model, clip)
    values, mask = _reference(model, clip)
    frames = int(mask.sum())
    assert mine.shape == (1, values.shape[1], frames)
    assert mine.dtype == torch.float32
    assert mine.is_contiguous()
    torch.testing.assert_close(mine, values[:, :, :frames], rtol=0, atol=1e-5)
    if tower:
        found = _encoded(model, mine)
        assert found.shape == (_audio_tokens(frames), 32)
        torch.testing.assert_close(found, _encoded(model, values, mask), rtol=0, atol=1e-4)


@pytest.mark.parametrize("samples", [*SHORT, *MIDDLE, *LONG])
def test_features_equal_the_padded_ones(samples: int) -> None:
    _assert_equal(audio_model(*TINY), _speechlike(samples), tower=samples > 321)


@pytest.mark.parametrize("samples", [1600, 16037, 32001, 100_003, 12 * 16000 + 77])
def test_features_equal_the_padded_ones_at_the_published_numbers(samples: int) -> None:
    model = audio_model(*HUB)
    assert model.processor.window_s == 300
    _assert_equal(model, _speechlike(samples), tower=True)


@pytest.mark.parametrize("samples", [1600, 32001, 5 * 16000 + 321, WINDOW])
def test_features_equal_the_padded_ones_where_attention_spans_the_clip(samples: int) -> None:
    _assert_equal(audio_model(*WHOLE), _speechlike(samples), tower=True)


@pytest.mark.parametrize("loudness", [1e-4, 1.0])
@pytest.mark.parametrize("shape", ["fade", "click at the end", "silence at the end", "constant"])
def test_features_do_not_depend_on_where_a_clip_is_loud(shape: str, loudness: float) -> None:
    clip = tiny_clip(5, 1.03)
    if shape == "fade":
        clip = (clip * np.linspace(1, 0, len(clip))).astype(np.float32)
    elif shape == "click at the end":
        clip = np.zeros_like(clip)
        clip[-1] = 1
    elif shape == "silence at the end":
        clip[4000:] = 0
    else:
        clip = np.full_like(clip, 0.5)
    _assert_equal(audio_model(*TINY), clip * np.float32(loudness), tower=True)


@pytest.mark.parametrize("numbers", [TINY, HUB, WHOLE])
def test_the_number_of_audio_tokens_is_what_the_tower_gives(numbers: tuple[int, int, int]) -> None:
    model = audio_model(*numbers)
    for frames in [*range(3, 60), *range(195, 210), *range(395, 410), 801, 1000, 2999, 3000]:
        assert _encoded(model, torch.zeros(1, numbers[0], frames)).shape[0] == _audio_tokens(frames), frames


@pytest.mark.parametrize("extra", [1, 160, WINDOW])
def test_audio_beyond_the_window_is_refused_not_cut(extra: int) -> None:
    processor = audio_model(*TINY).processor
    with pytest.raises(AudioContentError, match="audio-16 takes mono audio of at most 30 s") as error:
        processor.prompt(np.zeros(WINDOW + extra, dtype=np.float32), "x")
    assert "audio.segment" in str(error.value.hint)


def test_stereo_is_refused() -> None:
    with pytest.raises(AudioContentError, match=r"mono .* got shape \(2, 800\)"):
        audio_model(*TINY).processor.prompt(np.zeros((2, 800), dtype=np.float32), "x")
