"""A thinker with the published audio front end (128 mel bins, 300 s, windows of 100) and next to no weights."""

from __future__ import annotations

from functools import cache

import torch
from transformers import GenerationConfig, Qwen2_5OmniThinkerForConditionalGeneration, WhisperFeatureExtractor

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import AudioProcessor
from tests.tiny import TEMPLATE, as_audio_lm, tiny_config, tiny_processor


@cache
def audio_model(mel_bins: int, window_s: int, n_window: int) -> AudioLM:
    """A tiny thinker whose audio front end has these numbers."""
    config = tiny_config()
    config.audio_config.num_mel_bins = mel_bins
    config.audio_config.n_window = n_window
    config.audio_config.encoder_layers = 2
    with torch.random.fork_rng():
        torch.manual_seed(mel_bins)
        module = Qwen2_5OmniThinkerForConditionalGeneration(config).eval().requires_grad_(False)
    module.generation_config = GenerationConfig(eos_token_id=tiny_processor().tokenizer.eos_token_id)
    extractor = WhisperFeatureExtractor(feature_size=mel_bins, chunk_length=window_s, return_attention_mask=True)
    processor = AudioProcessor(extractor, tiny_processor().tokenizer, chat_template=TEMPLATE)
    return as_audio_lm(module, f"audio-{mel_bins}", processor)
