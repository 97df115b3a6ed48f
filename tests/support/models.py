"""Tiny random models: real classes, real tokenizer files, a few thousand weights.

The laws are statements about any pair of models; random ones are the harshest, since their distributions are flat,
they loop, and nothing about them is tuned to pass. Most are thinkers of Qwen2.5-Omni; those behind a vLLM server are
Qwen2-Audio's. `tests.support.kinds` has every family, as checkpoints.
"""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2AudioConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    WhisperFeatureExtractor,
)

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import AudioProcessor, family_of
from specdec_cli.models.processor import Processor
from training.tokenizer import SPECIAL_TOKENS

SPECIALS = SPECIAL_TOKENS[:10]
DEVICE = os.environ.get("SPECDEC_DEVICE", "cpu")
"""Where the models of the laws run."""
BEGIN_END = "<|audio_bos|><|AUDIO|><|audio_eos|>"
CHATML = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nHi.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'audio' %}AUDIO{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATE = CHATML.replace("AUDIO", BEGIN_END)


def byte_vocabulary() -> dict[str, int]:
    """The 256 bytes, as byte-level BPE writes them."""
    return {piece: at for at, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def byte_tokenizer(
    specials: Sequence[str],
    vocab: Mapping[str, int] | None = None,
    merges: Sequence[tuple[str, str]] = (),
    **fields: Any,
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer, whose special tokens follow the vocabulary (default: the 256 bytes), eos first."""
    backend = Tokenizer(models.BPE(vocab=dict(vocab or byte_vocabulary()), merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **fields)
    tokenizer.add_special_tokens({"eos_token": specials[0], "additional_special_tokens": list(specials)})
    return tokenizer


@lru_cache
def tiny_processor(merges: int = 0) -> AudioProcessor:
    """A byte-level tokenizer (256 bytes, `merges` pairs of letters, specials) and a small log-mel extractor."""
    vocab, pairs = byte_vocabulary(), [("a", letter) for letter in "bcdefghijklm"[:merges]]
    vocab |= {"".join(pair): 256 + at for at, pair in enumerate(pairs)}
    tokenizer = byte_tokenizer(("<|im_end|>", *SPECIALS), vocab, pairs)
    tokenizer.pad_token = "<|endoftext|>"
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=30, return_attention_mask=True)
    return AudioProcessor(extractor, tokenizer, chat_template=TEMPLATE)


@lru_cache
def audio_processor() -> Qwen2AudioProcessor:
    """The same tokenizer and extractor, with the published prompt format of Qwen2-Audio."""
    parts = tiny_processor()
    return Qwen2AudioProcessor(parts.feature_extractor, parts.tokenizer)


TOWER = {"num_mel_bins": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32}
"""Of the encoders of Qwen."""


def thinker_config(
    ids: Mapping[str, int],
    *,
    vocab_size: int = 288,
    layers: int = 2,
    hidden: int = 32,
    scale: float = 0.3,
    tower: Mapping[str, int] | None = None,
) -> Qwen2_5OmniThinkerConfig:
    """A thinker's for the ids of a tokenizer; `scale` is the spread of its weights: larger is more opinionated."""
    return Qwen2_5OmniThinkerConfig(
        audio_config={**TOWER, "d_model": 16, "n_window": 100, "output_dim": hidden, **(tower or {})},
        vision_config={
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": hidden,
            "fullatt_block_indexes": [0],
        },
        text_config={
            "vocab_size": vocab_size,
            "hidden_size": hidden,
            "intermediate_size": hidden * 3 // 2,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 8,
            "num_key_value_heads": hidden // 16,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
            "initializer_range": scale,
            "pad_token_id": ids["<|endoftext|>"],
        },
        audio_token_index=ids["<|AUDIO|>"],
        audio_token_id=ids["<|AUDIO|>"],
        image_token_id=ids["<|IMAGE|>"],
        image_token_index=ids["<|IMAGE|>"],
        video_token_id=ids["<|VIDEO|>"],
        video_token_index=ids["<|VIDEO|>"],
        audio_start_token_id=ids["<|audio_bos|>"],
        audio_end_token_id=ids["<|audio_eos|>"],
        vision_start_token_id=ids["<|vision_bos|>"],
        vision_end_token_id=ids["<|vision_eos|>"],
        initializer_range=scale,
        pad_token_id=ids["<|endoftext|>"],
    )  # fmt: skip


def audio_config(ids: Mapping[str, int], text: Mapping[str, Any], d_model: int = 16) -> Qwen2AudioConfig:
    """A Qwen2-Audio's around a text model."""
    tower = {**TOWER, "d_model": d_model, "max_source_positions": 1500}
    return Qwen2AudioConfig(
        audio_config=tower, text_config={"model_type": "qwen2", **text}, audio_token_index=ids["<|AUDIO|>"]
    )


def tiny_module(seed: int, *, scale: float = 0.3, merges: int = 0, **sizes: Any) -> Any:
    """A thinker with random float32 weights, the same for the same seed and sizes; global seeds untouched."""
    config = thinker_config(tiny_processor(merges).tokenizer.get_vocab(), scale=scale, **sizes)
    module = _seeded(Qwen2_5OmniThinkerForConditionalGeneration, config, seed, scale, unused="visual")
    return _ending(module, tiny_processor(merges))


def audio_module(
    seed: int, *, scale: float = 0.3, vocab_size: int = 288, layers: int = 2, hidden: int = 64
) -> Qwen2AudioForConditionalGeneration:
    """A Qwen2-Audio, likewise, with heads of 32, the least that fast attention kernels take."""
    ids = tiny_processor().tokenizer.get_vocab()
    text = {
        "vocab_size": vocab_size, "hidden_size": hidden, "intermediate_size": 48, "num_hidden_layers": layers,
        "num_attention_heads": hidden // 32, "num_key_value_heads": 1, "max_position_embeddings": 4096,
        "pad_token_id": ids["<|endoftext|>"],
    }  # fmt: skip
    config = audio_config(ids, text, d_model=32)
    return _ending(_seeded(Qwen2AudioForConditionalGeneration, config, seed, scale), audio_processor())


def _seeded(kind: Any, config: Any, seed: int, scale: float, unused: str = "-") -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = kind(config).eval().requires_grad_(False)
        for name, weight in module.named_parameters():
            if weight.ndim > 1 and unused not in name:
                weight.copy_(torch.randn_like(weight) * scale)
    return module


def _ending(module: Any, parts: Any) -> Any:
    pad = module.config.get_text_config(decoder=True).pad_token_id
    module.generation_config = GenerationConfig(eos_token_id=parts.tokenizer.eos_token_id, pad_token_id=pad)
    return module


def as_audio_lm(
    module: Any,
    name: str,
    parts: Any = None,
    graphs: str = "auto",
    device: str = DEVICE,
    *,
    compiled: bool = False,
) -> AudioLM:
    """A module as the loop takes it, a thinker without its vision tower."""
    family = family_of(module.config.model_type)
    assert family is not None
    if family.name == "qwen2.5-omni":
        module.model.visual = None
    parts = parts or (tiny_processor() if family.name == "qwen2.5-omni" else audio_processor())
    processor = Processor(name, family, parts, module.config, module.generation_config)
    model = AudioLM(module.to(device), processor, graphs=graphs, compiled=compiled)
    model.record_graphs()
    return model


def tiny_model(
    seed: int,
    name: str | None = None,
    *,
    merges: int = 0,
    graphs: str = "auto",
    compiled: bool = False,
    **settings: Any,
) -> AudioLM:
    """A loaded tiny thinker."""
    module = tiny_module(seed, merges=merges, **settings)
    return as_audio_lm(module, name or f"tiny-{seed}", tiny_processor(merges), graphs, compiled=compiled)


def tiny_audio_model(seed: int, name: str | None = None, **settings: Any) -> AudioLM:
    """A loaded tiny Qwen2-Audio."""
    return as_audio_lm(audio_module(seed, **settings), name or f"audio-{seed}")


def near_model(model: AudioLM, seed: int, noise: float, vocab_size: int | None = None, graphs: str = "auto") -> AudioLM:
    """A copy of `model` with its weights jittered by `noise` (relative), and its vocabulary padded to another size."""
    config, generator = deepcopy(model.module.config), torch.Generator().manual_seed(seed)
    text = config.get_text_config(decoder=True)
    text.vocab_size = vocab_size or text.vocab_size
    copy, source = _seeded(type(model.module), config, seed, 0.3), dict(model.module.named_parameters())
    for name, weight in copy.named_parameters():
        if name in source:
            original = source[name].cpu()
            jitter = 1 + noise * torch.randn(original.shape, generator=generator)
            rows = min(len(weight), len(original))
            weight[:rows] = (original * jitter)[:rows]
    copy.generation_config = model.module.generation_config
    return as_audio_lm(copy, f"near-{model.name}", model.processor.parts, graphs)


def tiny_clip(seed: int, seconds: float = 0.6) -> npt.NDArray[np.float32]:
    """A noisy tone glide at 16 kHz, different for every seed."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * 16000)) / 16000
    glide = np.sin(2 * np.pi * (rng.uniform(80, 400) * t + rng.uniform(-200, 400) * t**2))
    return (0.3 * glide + 0.05 * rng.standard_normal(len(t))).astype(np.float32)


def save_checkpoint(module: Any, folder: Path, *, visual: bool = True) -> Path:
    """Writes a checkpoint with keys and files as on the hub; of a thinker with or without a vision tower."""
    weights = {name: weight for name, weight in module.state_dict().items() if visual or "visual" not in name}
    module.save_pretrained(folder, state_dict=weights)
    thinker = module.config.model_type == "qwen2_5_omni_thinker"
    (tiny_processor() if thinker else audio_processor()).save_pretrained(folder)
    return folder
