"""Tiny random Qwen2.5-Omni thinkers: real classes, real tokenizer files, a few thousand weights.

The laws are statements about any pair of models; random ones are the harshest, since their distributions are flat,
they loop, and nothing about them is tuned to pass.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    WhisperFeatureExtractor,
)

from specdec_cli.config import CloudConfig, Config, EdgeConfig
from specdec_cli.config.decoding_schema import AcceptanceConfig, DecodingConfig, GateConfig
from specdec_cli.config.schema import PromptConfig, RuntimeConfig
from specdec_cli.decoding.assemble import build_loop
from specdec_cli.decoding.block import Block, Event
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine
from specdec_cli.models.families import FAMILIES, AudioProcessor
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import Finished
from training.tokenizer import SPECIAL_TOKENS

SPECIALS = SPECIAL_TOKENS[:10]
DEVICE = os.environ.get("SPECDEC_DEVICE", "cpu")
"""Where the models of the laws run."""
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nHi.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'audio' %}<|audio_bos|><|AUDIO|><|audio_eos|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


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
def tiny_processor(merges: int = 0, window_s: int = 30) -> AudioProcessor:
    """A byte-level tokenizer (256 bytes, `merges` pairs of letters, specials) and a small log-mel extractor."""
    vocab, pairs = byte_vocabulary(), [("a", letter) for letter in "bcdefghijklm"[:merges]]
    vocab |= {"".join(pair): 256 + at for at, pair in enumerate(pairs)}
    tokenizer = byte_tokenizer(("<|im_end|>", *SPECIALS), vocab, pairs)
    tokenizer.pad_token = "<|endoftext|>"
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=window_s, return_attention_mask=True)
    return AudioProcessor(extractor, tokenizer, chat_template=TEMPLATE)


def tiny_config(
    *, vocab_size: int = 288, layers: int = 2, hidden: int = 32, scale: float = 0.3, merges: int = 0
) -> Qwen2_5OmniThinkerConfig:
    """A thinker's configuration; `scale` is the spread of the random weights: larger is more opinionated."""
    ids = tiny_processor(merges).tokenizer.get_vocab()
    return thinker_config(ids, vocab_size=vocab_size, layers=layers, hidden=hidden, scale=scale)


def thinker_config(
    ids: Mapping[str, int], *, vocab_size: int, layers: int = 2, hidden: int = 32, scale: float = 0.3
) -> Qwen2_5OmniThinkerConfig:
    """The same for the ids of a tokenizer."""
    return Qwen2_5OmniThinkerConfig(
        audio_config={
            "num_mel_bins": 16, "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
            "n_window": 100, "output_dim": hidden,
        },
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


def tiny_module(seed: int, **settings: Any) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """A thinker with random float32 weights, the same for the same seed and settings; global seeds untouched."""
    config = tiny_config(**settings)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Qwen2_5OmniThinkerForConditionalGeneration(config).eval().requires_grad_(False)
        spread = settings.get("scale", 0.3)
        for name, weight in module.named_parameters():
            if weight.ndim > 1 and "visual" not in name:
                weight.copy_(torch.randn_like(weight) * spread)
    eos = config.text_config.vocab_size and tiny_processor(settings.get("merges", 0)).tokenizer.eos_token_id
    module.generation_config = GenerationConfig(eos_token_id=eos, pad_token_id=config.text_config.pad_token_id)
    return module


def as_audio_lm(
    module: Qwen2_5OmniThinkerForConditionalGeneration,
    name: str,
    parts: AudioProcessor | None = None,
    graphs: str = "auto",
    device: str = DEVICE,
    *,
    compiled: bool = False,
) -> AudioLM:
    """A thinker as the loop takes it, without its vision tower."""
    family = FAMILIES["qwen2.5-omni"]
    module.model.visual = None
    processor = Processor(name, family, parts or tiny_processor(), module.config, module.generation_config)
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


def near_model(model: AudioLM, seed: int, noise: float, vocab_size: int | None = None, graphs: str = "auto") -> AudioLM:
    """A copy of `model` with its weights jittered by `noise` (relative), and its vocabulary padded to another size."""
    text = model.module.config.text_config
    copy = tiny_module(
        seed, vocab_size=vocab_size or text.vocab_size, layers=text.num_hidden_layers, hidden=text.hidden_size
    )
    generator = torch.Generator().manual_seed(seed)
    source = dict(model.module.named_parameters())
    for parameter_name, weight in copy.named_parameters():
        if parameter_name not in source:
            continue
        original = source[parameter_name].cpu()
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


def save_checkpoint(module: Qwen2_5OmniThinkerForConditionalGeneration, folder: Path, *, visual: bool = True) -> Path:
    """Writes a thinker-only checkpoint that `load_model` reads, with or without a vision tower."""
    weights = {name: weight for name, weight in module.state_dict().items() if visual or "visual" not in name}
    module.save_pretrained(folder, state_dict=weights)
    tiny_processor().save_pretrained(folder)
    return folder


_OTHER_NAMES: Final = {
    "gate": ("gate", "name"),
    "acceptance": ("acceptance", "rule"),
    "arbitrates": ("acceptance", "grounded"),
}
_SECTIONS: Final = {
    "decoding": DecodingConfig,
    "gate": GateConfig,
    "acceptance": AcceptanceConfig,
    "prompt": PromptConfig,
    "runtime": RuntimeConfig,
}


def settings(**given: Any) -> Config:
    """A configuration from settings by their own names, with `gate` for `gate.name`, `acceptance` for its rule, and
    `arbitrates` for `acceptance.grounded`; `defer=True` is short for `k="whole"`:

    `settings(mode="hybrid", k=3, gate="entropy", threshold=0.5)`.
    """
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    given = {"closing": "off", "gate": "entropy", **given}
    if given.pop("defer", False):
        given["k"] = "whole"
    for name, value in given.items():
        section, field = _OTHER_NAMES.get(name) or next(
            (section, name) for section, type_ in _SECTIONS.items() if name in type_.model_fields
        )
        sections[section][field] = value
    made: dict[str, Any] = {name: type_(**sections[name]) for name, type_ in _SECTIONS.items()}
    return Config(edge=EdgeConfig(model="tiny/edge"), cloud=CloudConfig(model="tiny/cloud"), **made)


def collect(events: Iterable[Event]) -> tuple[list[Block], Finished]:
    """The rounds and the end of a run."""
    seen = list(events)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    return [event for event in seen if isinstance(event, Block)], finished


def decode(
    pair: Pair,
    config: Config,
    edge_prompt: Prompt | None,
    cloud_prompt: Prompt | None,
    *,
    gate: Gate | None = None,
    engine: Engine | None = None,
) -> tuple[list[Block], Finished]:
    """Runs one clip through the loop: its rounds and its end."""
    return collect(build_loop(pair, config, edge_prompt, cloud_prompt, gate, engine=engine).run())
