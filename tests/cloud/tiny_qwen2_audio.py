"""Tiny random Qwen2-Audio models: real classes, the tokenizer of `tests.tiny`, the published window and prompt."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    GenerationConfig,
    Qwen2AudioConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    WhisperFeatureExtractor,
)

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import FAMILIES
from specdec_cli.models.processor import Processor
from tests.tiny import SPECIALS, tiny_processor

WINDOW_S = 30


@lru_cache
def audio_processor() -> Qwen2AudioProcessor:
    """The tokenizer of the tiny thinkers, a small log-mel extractor, and the published prompt format."""
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=WINDOW_S, return_attention_mask=True)
    return Qwen2AudioProcessor(extractor, tiny_processor().tokenizer)


def audio_config(*, vocab_size: int = 288, layers: int = 2, hidden: int = 64) -> Qwen2AudioConfig:
    """A configuration with heads of 32, the least that fast attention kernels take."""
    ids = {name: tiny_processor().tokenizer.convert_tokens_to_ids(name) for name in SPECIALS}
    return Qwen2AudioConfig(
        audio_config={
            "num_mel_bins": 16, "d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
            "max_source_positions": 50 * WINDOW_S,
        },
        text_config={
            "vocab_size": vocab_size, "hidden_size": hidden, "intermediate_size": 48, "num_hidden_layers": layers,
            "num_attention_heads": hidden // 32, "num_key_value_heads": 1, "max_position_embeddings": 4096,
            "pad_token_id": ids["<|endoftext|>"],
        },
        audio_token_index=ids["<|AUDIO|>"],
    )  # fmt: skip


def audio_module(seed: int, *, scale: float = 0.3, **settings: Any) -> Qwen2AudioForConditionalGeneration:
    """A model with random float32 weights, the same for the same seed and settings; global seeds untouched."""
    config = audio_config(**settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Qwen2AudioForConditionalGeneration(config).eval().requires_grad_(False)
        for weight in module.parameters():
            weight.copy_(torch.randn_like(weight) * scale + (weight.ndim == 1))
    eos = audio_processor().tokenizer.eos_token_id
    module.generation_config = GenerationConfig(eos_token_id=eos, pad_token_id=config.text_config.pad_token_id)
    return module


def as_audio_lm(module: Qwen2AudioForConditionalGeneration, name: str) -> AudioLM:
    """A module as the loop takes it."""
    family = FAMILIES["qwen2-audio"]
    return AudioLM(module, Processor(name, family, audio_processor(), module.config, module.generation_config))


def tiny_audio_model(seed: int, name: str | None = None, **settings: Any) -> AudioLM:
    """A loaded tiny Qwen2-Audio."""
    return as_audio_lm(audio_module(seed, **settings), name or f"audio-{seed}")


def near_audio_model(model: AudioLM, seed: int, noise: float, vocab_size: int) -> AudioLM:
    """A copy of `model` with its weights jittered by `noise` (relative), and its vocabulary padded to another size."""
    text = model.module.config.text_config
    copy = audio_module(seed, vocab_size=vocab_size, layers=text.num_hidden_layers, hidden=text.hidden_size)
    generator = torch.Generator().manual_seed(seed)
    for weight, original in zip(copy.parameters(), model.module.parameters(), strict=True):
        jitter = 1 + noise * torch.randn(original.shape, generator=generator)
        rows = min(len(weight), len(original))
        weight[:rows] = (original * jitter)[:rows]
    return as_audio_lm(copy, f"near-{model.name}")


def hub_tensors(module: Qwen2AudioForConditionalGeneration) -> dict[str, torch.Tensor]:
    """The weights under the names of the published checkpoints."""
    renamed = {}
    for key, value in module.state_dict().items():
        published = key.removeprefix("model.").replace("language_model.", "language_model.model.")
        renamed[published.replace("lm_head", "language_model.lm_head")] = value.contiguous()
    return renamed


def write_audio_checkpoint(folder: Path, module: Qwen2AudioForConditionalGeneration) -> Path:
    """A checkpoint with keys and files named as on the hub."""
    folder.mkdir(parents=True)
    module.config.architectures = [type(module).__name__]
    module.config.save_pretrained(folder)
    module.generation_config.save_pretrained(folder)
    audio_processor().save_pretrained(folder)
    save_file(hub_tensors(module), folder / "model.safetensors", {"format": "pt"})
    return folder
