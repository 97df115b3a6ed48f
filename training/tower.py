"""Batched passes through the Omni audio tower's layers, for training (the model's own forward packs clips instead)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2_5OmniAudioEncoderConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.architecture import TOWER_HEADS, TOWER_WIDTH, audio_config
from training.features import pooled_length


def build_tower(layers: int) -> Qwen2_5OmniAudioEncoder:
    """An audio tower with `layers` layers, randomly initialised."""
    return Qwen2_5OmniAudioEncoder(Qwen2_5OmniAudioEncoderConfig(**audio_config(layers, TOWER_WIDTH)))


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
    layers: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pooled states before `ln_post`, shape (batch, longest, 512) at 25 a second, and their lengths (batch,).

    No gradient reaches the convolutions. With `layers`, the states after that many layers, 0 being the convolutions'
    with positions added.
    """
    depth = len(tower.layers) if layers is None else layers
    states = next(islice(layer_states(tower, mels, lengths), depth, None))
    return states, torch.tensor([pooled_length(int(length)) for length in lengths])


def layer_states(tower: Qwen2_5OmniAudioEncoder, mels: torch.Tensor, lengths: torch.Tensor) -> Iterator[torch.Tensor]:
    """What `encode` gives after the convolutions, then after each layer."""
    with torch.no_grad():
        inside = (torch.arange(mels.shape[2]) < lengths[:, None])[:, None]
        states = functional.gelu(tower.conv1(mels)) * inside
        states = functional.gelu(tower.conv2(states)).transpose(1, 2)
        states = states + tower.positional_embedding.positional_embedding[: states.shape[1]]
    valid = (lengths - 1) // 2 + 1
    mask = torch.zeros(len(mels), 1, 1, states.shape[1])
    mask.masked_fill_(torch.arange(states.shape[1]) >= valid[:, None, None, None], -1e4)
    yield _pooled(states)
    for layer in tower.layers:
        states = _layer(layer, states, mask)
        yield _pooled(states)


def _pooled(states: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool1d(states.transpose(1, 2).float(), 2).transpose(1, 2)


def _layer(layer: Any, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One layer; `mask` (batch, 1, 1, frames) is added to the scores. Written out, attention trains nearly twice as
    fast on a CPU as the fused one, whose backward pass is slow in bfloat16."""
    attention = layer.self_attn
    batch, frames, width = states.shape
    count = TOWER_HEADS
    normed = layer.self_attn_layer_norm(states)

    def heads(projection: nn.Module) -> torch.Tensor:
        out: torch.Tensor = projection(normed)
        return out.view(batch, frames, count, -1).transpose(1, 2).reshape(batch * count, frames, -1)

    query, key, value = heads(attention.q_proj), heads(attention.k_proj), heads(attention.v_proj)
    added = mask.to(query.dtype).expand(batch, count, 1, frames).reshape(batch * count, 1, frames)
    scores = torch.baddbmm(added, query * query.shape[-1] ** -0.5, key.transpose(1, 2))
    mixed = torch.bmm(scores.softmax(dim=-1).to(value.dtype), value).view(batch, count, frames, -1)
    states = states + attention.out_proj(mixed.transpose(1, 2).reshape(batch, frames, width))
    hidden: torch.Tensor = layer.fc2(functional.gelu(layer.fc1(layer.final_layer_norm(states))))
    return states + hidden
