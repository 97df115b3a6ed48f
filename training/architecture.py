"""The two models' shapes: Qwen2.5-Omni thinkers with a Whisper-base audio tower and a small text decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration

TOWER_WIDTH: Final = 512
TOWER_HEADS: Final = 8
TOWER_FFN: Final = 2048
MAX_AUDIO_FRAMES: Final = 1500
"""Frames of 20 ms after the convolutions: one attention window of 30 s."""


@dataclass(frozen=True)
class Side:
    """Sizes of one side of the pair. `vocabulary_multiple`: the embedding is padded up to a multiple of it."""

    name: str
    tower_layers: int
    hidden: int
    layers: int
    ffn: int
    vocabulary_multiple: int


EDGE: Final = Side("edge", tower_layers=1, hidden=192, layers=2, ffn=512, vocabulary_multiple=64)
CLOUD: Final = Side("cloud", tower_layers=6, hidden=192, layers=10, ffn=512, vocabulary_multiple=192)
SEED: Final = Side("seed", tower_layers=6, hidden=192, layers=2, ffn=512, vocabulary_multiple=64)
"""Not shipped: the edge's decoder on the cloud's tower, from which the decoders of both are grown."""
SIDES: Final = {side.name: side for side in (EDGE, CLOUD)}


def audio_config(layers: int, output: int) -> dict[str, Any]:
    """Settings of an audio tower of Whisper base's sizes with `layers` layers, whose `proj` gives `output` values."""
    return {
        "num_mel_bins": 80,
        "d_model": TOWER_WIDTH,
        "encoder_layers": layers,
        "encoder_attention_heads": TOWER_HEADS,
        "encoder_ffn_dim": TOWER_FFN,
        "max_source_positions": MAX_AUDIO_FRAMES,
        "n_window": MAX_AUDIO_FRAMES,
        "output_dim": output,
        "dropout": 0.0,
    }


def thinker_config(side: Side, vocabulary: dict[str, int]) -> Qwen2_5OmniThinkerConfig:
    """Configuration of `side`; `vocabulary` is the tokenizer's, from token to id."""
    multiple = side.vocabulary_multiple
    return Qwen2_5OmniThinkerConfig(
        audio_config=audio_config(side.tower_layers, side.hidden),
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 1,
            "out_hidden_size": side.hidden,
            "fullatt_block_indexes": [0],
        },
        text_config={
            "vocab_size": -(-len(vocabulary) // multiple) * multiple,
            "hidden_size": side.hidden,
            "intermediate_size": side.ffn,
            "num_hidden_layers": side.layers,
            "num_attention_heads": side.hidden // 64,
            "num_key_value_heads": 1,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
            "tie_word_embeddings": False,
            "use_sliding_window": False,
            "pad_token_id": vocabulary["<|endoftext|>"],
            "bos_token_id": None,
            "eos_token_id": vocabulary["<|im_end|>"],
        },
        audio_token_index=vocabulary["<|AUDIO|>"],
        image_token_index=vocabulary["<|IMAGE|>"],
        video_token_index=vocabulary["<|VIDEO|>"],
        audio_start_token_id=vocabulary["<|audio_bos|>"],
        audio_end_token_id=vocabulary["<|audio_eos|>"],
        vision_start_token_id=vocabulary["<|vision_bos|>"],
        vision_end_token_id=vocabulary["<|vision_eos|>"],
        pad_token_id=vocabulary["<|endoftext|>"],
        tie_word_embeddings=False,
    )


def build_thinker(side: Side, vocabulary: dict[str, int]) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """A randomly initialised model of `side`, float32, without the vision tower (which captions never use)."""
    model = Qwen2_5OmniThinkerForConditionalGeneration(thinker_config(side, vocabulary))
    del model.model.visual
    return model


@torch.no_grad()
def grow_decoder(
    small: Qwen2_5OmniThinkerForConditionalGeneration, large: Qwen2_5OmniThinkerForConditionalGeneration
) -> None:
    """Make `large`, as deep or deeper, start as the same function of tower states as `small`; widths must be equal.

    The layers of `small` are spread over those of `large`; the layers between them add nothing at first, because their
    output projections are zero (as in Net2Net, Chen et al. 2016). Rows of a larger vocabulary keep their own weights.
    """
    own, source = large.state_dict(), small.state_dict()
    for name, value in source.items():
        if name.startswith(("model.language_model.layers.", "model.audio_tower.conv", "model.audio_tower.layers")):
            continue
        own[name][: len(value)] = value
    new_layers, old_layers = large.model.language_model.layers, small.model.language_model.layers
    spacing = len(new_layers) // len(old_layers)
    for index, layer in enumerate(new_layers):
        if index % spacing == 0 and index // spacing < len(old_layers):
            layer.load_state_dict(old_layers[index // spacing].state_dict())
        else:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
