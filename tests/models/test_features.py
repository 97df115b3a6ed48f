"""Features and audio embeddings at the clip's own length equal transformers' own at the padded window.

Three front ends: the tests' tiny one, the published one, and one whose attention window is the whole clip.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import WhisperFeatureExtractor

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import FAMILIES, AudioProcessor, QwenOmni
from tests.support.models import TEMPLATE, as_audio_lm, tiny_clip, tiny_module, tiny_processor

TINY, HUB, WHOLE = (16, 30, 100), (128, 300, 100), (80, 30, 1500)
QWEN = FAMILIES["qwen2.5-omni"]
assert isinstance(QWEN, QwenOmni)
WINDOW = 30 * 16000
# around every stride (160, 320, 640), around the tower's windows (2 s), and at the end of the extractor's window,
# where it sees a reflection of the clip instead of zeros
SHORT = (321, 480, 481, 640, 641, 1279, 1280, 1281, 1600, 1601)
MIDDLE = (7919, 15999, 16000, 16037, 31999, 32000, 32001, 32160, 63999, 64001, 100_003)
LONG = tuple(WINDOW - n for n in (1000, 801, 800, 799, 321, 320, 201, 200, 161, 160, 159, 41, 40, 39, 1, 0))
CASES = [
    *((TINY, samples) for samples in (*SHORT, *MIDDLE, *LONG)),
    *((HUB, samples) for samples in (1600, 16037, 32001, 100_003, 12 * 16000 + 77)),
    *((WHOLE, samples) for samples in (1600, 32001, 5 * 16000 + 321, WINDOW)),
]


@cache
def audio_model(mel_bins: int, window_s: int, n_window: int) -> AudioLM:
    """A tiny thinker whose audio front end has these numbers."""
    tower = {"num_mel_bins": mel_bins, "n_window": n_window, "encoder_layers": 2}
    extractor = WhisperFeatureExtractor(feature_size=mel_bins, chunk_length=window_s, return_attention_mask=True)
    processor = AudioProcessor(extractor, tiny_processor().tokenizer, chat_template=TEMPLATE)
    return as_audio_lm(tiny_module(mel_bins, tower=tower), f"audio-{mel_bins}", processor)


def encoded(model: AudioLM, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    mask = torch.ones(1, values.shape[-1], dtype=torch.long) if mask is None else mask
    found: torch.Tensor = model.module.get_audio_features(values, feature_attention_mask=mask).last_hidden_state
    return found


def assert_equal(model: AudioLM, clip: npt.NDArray[np.float32]) -> None:
    """A prompt's features, and what the encoder makes of them, are those at the window of the extractor."""
    audio = model.processor.prompt(clip, "x").audio
    mine, mask = audio["input_features"], audio["feature_attention_mask"]
    padded: Any = model.processor.parts.feature_extractor(
        clip, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt"
    )
    values, frames = padded.input_features, int(padded.attention_mask.sum())
    assert mine.shape == (1, values.shape[1], frames)
    assert mask.tolist() == [[1] * frames]
    assert mine.dtype == torch.float32
    assert mine.is_contiguous()
    torch.testing.assert_close(mine, values[:, :, :frames], rtol=0, atol=1e-5)
    if len(clip) > 321:
        found = encoded(model, mine)
        assert found.shape == (QWEN.audio_tokens(frames), 32)
        torch.testing.assert_close(found, encoded(model, values, padded.attention_mask), rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("numbers", "samples"), CASES)
def test_features_equal_the_padded_ones(numbers, samples):
    """Of a noisy glide that gets louder, so that its end holds the maximum."""
    model, clip = audio_model(*numbers), tiny_clip(0, (samples + 1) / 16000)[:samples]
    assert model.processor.window_s == numbers[1]
    assert_equal(model, (clip * np.linspace(0.01, 1, samples)).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [TINY, HUB, WHOLE])
def test_the_number_of_audio_tokens_is_what_the_tower_gives(numbers):
    model = audio_model(*numbers)
    for frames in [*range(3, 60), *range(195, 210), *range(395, 410), 801, 1000, 2999, 3000]:
        assert len(encoded(model, torch.zeros(1, numbers[0], frames))) == QWEN.audio_tokens(frames), frames
