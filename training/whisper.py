"""Whisper-base's convolutions and first layers, ported into an Omni audio tower.

Three sources are read: a hub id or a local folder in transformers' format, or a CTranslate2 `model.bin`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import numpy as np
import torch
from transformers import WhisperModel
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.architecture import TOWER_WIDTH

_DTYPES: Final = {0: np.float32, 4: np.float16}
_LAYER_NORMS: Final = (("self_attention/layer_norm", "self_attn_layer_norm"), ("ffn/layer_norm", "final_layer_norm"))
_LAYER_LINEARS: Final = (
    ("self_attention/linear_1", "self_attn.out_proj"),
    ("ffn/linear_0", "fc1"),
    ("ffn/linear_1", "fc2"),
)


def read_encoder_state(source: str) -> dict[str, torch.Tensor]:
    """Encoder weights, float32, named as in transformers' `WhisperEncoder`, from any of the three sources."""
    path = Path(source)
    if path.is_file():
        return from_ctranslate2(read_ctranslate2(path))
    encoder = WhisperModel.from_pretrained(source, dtype=torch.float32).encoder
    return {name: tensor.detach() for name, tensor in encoder.state_dict().items()}


def read_ctranslate2(path: Path) -> dict[str, torch.Tensor]:
    """Floating-point tensors of a CTranslate2 model file by name, float32."""
    data = path.read_bytes()
    position = 0

    def take(layout: str) -> int:
        nonlocal position
        (value,) = struct.unpack_from("<" + layout, data, position)
        position += struct.calcsize(layout)
        return int(value)

    def text() -> str:
        nonlocal position
        size = take("H")
        raw = data[position : position + size]
        position += size
        return raw.rstrip(b"\0").decode()

    take("I")
    if "Whisper" not in text():
        raise ValueError(f"{path} is not a CTranslate2 Whisper model")
    take("I")
    tensors: dict[str, torch.Tensor] = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        if kind in _DTYPES:
            values = np.frombuffer(data, _DTYPES[kind], size // np.dtype(_DTYPES[kind]).itemsize, position)
            tensors[name] = torch.from_numpy(values.astype(np.float32).reshape(shape))
        position += size
    return tensors


def from_ctranslate2(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename CTranslate2's encoder tensors; q, k and v are stacked in `linear_0` in this order."""
    state: dict[str, torch.Tensor] = {}
    for convolution in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            state[f"{convolution}.{part}"] = tensors[f"encoder/{convolution}/{part}"]
    layer = 0
    while f"encoder/layer_{layer}/ffn/linear_0/weight" in tensors:
        source, target = f"encoder/layer_{layer}/", f"layers.{layer}."
        for part in ("weight", "bias"):
            stacked = tensors[f"{source}self_attention/linear_0/{part}"]
            for name, piece in zip(("q", "k", "v"), stacked.chunk(3), strict=True):
                state[f"{target}self_attn.{name}_proj.{part}"] = piece
            for old, new in _LAYER_LINEARS:
                state[f"{target}{new}.{part}"] = tensors[f"{source}{old}/{part}"]
        for old, new in _LAYER_NORMS:
            state[f"{target}{new}.weight"] = tensors[f"{source}{old}/gamma"]
            state[f"{target}{new}.bias"] = tensors[f"{source}{old}/beta"]
        layer += 1
    state["layer_norm.weight"] = tensors["encoder/layer_norm/gamma"]
    state["layer_norm.bias"] = tensors["encoder/layer_norm/beta"]
    return state


def port(state: dict[str, torch.Tensor], tower: Qwen2_5OmniAudioEncoder) -> None:
    """Copy Whisper's convolutions and as many layers as `tower` has; `ln_post` starts from Whisper's final norm."""
    if state["conv1.weight"].shape[0] != TOWER_WIDTH:
        raise ValueError(f"expected Whisper base (width {TOWER_WIDTH}), got {state['conv1.weight'].shape[0]}")
    target = tower.state_dict()
    for name in target:
        source = name.replace("ln_post", "layer_norm")
        if source in state:
            target[name] = state[source].clone()
        elif name.endswith("k_proj.bias"):
            target[name] = torch.zeros(TOWER_WIDTH)  # Whisper's key projection has no bias
    tower.load_state_dict(target)
