"""Batched passes through the Omni audio tower's layers, for training (the model's own forward packs clips instead)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2_5OmniAudioEncoderConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training import architecture
from training.features import pooled_length


def build_tower(layers: int, output: int = architecture.TOWER_WIDTH) -> Qwen2_5OmniAudioEncoder:
    """An audio tower of Whisper-base's sizes with `layers` layers, randomly initialised."""
    config = Qwen2_5OmniAudioEncoderConfig(
        num_mel_bins=80,
        d_model=architecture.TOWER_WIDTH,
        encoder_layers=layers,
        encoder_attention_heads=architecture.TOWER_HEADS,
        encoder_ffn_dim=architecture.TOWER_FFN,
        max_source_positions=architecture.MAX_AUDIO_FRAMES,
        n_window=architecture.MAX_AUDIO_FRAMES,
        output_dim=output,
        dropout=0.0,
    )
    return Qwen2_5OmniAudioEncoder(config)


def pad_mels(mels: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Clips of shape (80, frames) as one tensor (batch, 80, longest) and their lengths (batch,)."""
    lengths = torch.tensor([mel.shape[1] for mel in mels])
    padded = torch.zeros(len(mels), mels[0].shape[0], int(lengths.max()))
    for row, mel in zip(padded, mels, strict=True):
        row[:, : mel.shape[1]] = mel
    return padded, lengths


def encode(
    tower: Qwen2_5OmniAudioEncoder,
    mels: torch.Tensor,
    lengths: torch.Tensor,
    frozen_layers: int = -1,
    layers: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pooled states before `ln_post`, shape (batch, longest, 512) at 25 a second, and their lengths (batch,).

    With `frozen_layers` of 0 or more, no gradient reaches the convolutions and that many first layers.
    With `layers`, the states after that many layers, 0 being the convolutions' with positions added.
    """
    with torch.set_grad_enabled(torch.is_grad_enabled() and frozen_layers < 0):
        inside = (torch.arange(mels.shape[2]) < lengths[:, None])[:, None]
        states = functional.gelu(tower.conv1(mels)) * inside
        states = functional.gelu(tower.conv2(states)).transpose(1, 2)
        states = states + tower.positional_embedding.positional_embedding[: states.shape[1]]
    valid = (lengths - 1) // 2 + 1
    mask = (torch.arange(states.shape[1]) < valid[:, None])[:, None, None]
    for index, layer in enumerate(tower.layers[:layers]):
        with torch.set_grad_enabled(torch.is_grad_enabled() and index >= frozen_layers):
            states = _layer(layer, states, mask)
    pooled = functional.avg_pool1d(states.transpose(1, 2).float(), 2).transpose(1, 2)
    return pooled, torch.tensor([pooled_length(int(length)) for length in lengths])


def _layer(layer: Any, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    attention = layer.self_attn
    batch, frames, width = states.shape
    normed = layer.self_attn_layer_norm(states)

    def heads(projection: nn.Module) -> torch.Tensor:
        out: torch.Tensor = projection(normed)
        return out.view(batch, frames, architecture.TOWER_HEADS, -1).transpose(1, 2)

    mixed = functional.scaled_dot_product_attention(
        heads(attention.q_proj), heads(attention.k_proj), heads(attention.v_proj), attn_mask=mask
    )
    states = states + attention.out_proj(mixed.transpose(1, 2).reshape(batch, frames, width))
    hidden: torch.Tensor = layer.fc2(functional.gelu(layer.fc1(layer.final_layer_norm(states))))
    return states + hidden
