"""A Whisper-style audio tower whose result is the same, to the last bit, whatever the number of CPU threads.

A clip alone is heard with all threads and one of a batch with a single one beside other clips; both must be told the
same. Matrix products give that if their rows come in multiples (see `packed.ROW_MULTIPLE`); convolutions do not, so
they are made as matrix products too: the same arithmetic, over rows that hold what each output sees.

The weights and their modules are transformers'; only the way through them is ours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import gelu, linear, pad, scaled_dot_product_attention

from specdec_cli.models.packed import filled

_SEEN = 3  # inputs that a convolution's output sees: one on each side of its own
_HEAD_MULTIPLE = 16  # heads of another width lie in memory so that attention rounds by the number of threads


class ExactTower:
    """The way through the layers of a transformers Qwen2.5-Omni audio encoder.

    Args:
        module: the encoder; see `fits`.
    """

    @staticmethod
    def fits(module: Any) -> bool:
        """Whether this way leads through an encoder and keeps its promise: float32 on the CPU, attention by `sdpa`."""
        config, weight = module.config, module.conv1.weight
        return (
            (weight.device.type, weight.dtype) == ("cpu", torch.float32)
            and config._attn_implementation == "sdpa"
            and config.d_model // config.encoder_attention_heads % _HEAD_MULTIPLE == 0
        )

    def __init__(self, module: Any) -> None:
        self._module = module
        self._heads = int(module.config.encoder_attention_heads)
        self._window = int(module.n_window)  # rows that see each other; each comes from two frames

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Log-mel features [mel bins, frames] -> [audio tokens, hidden]."""
        hidden = self._convolved(values)
        rows = len(hidden)
        hidden = filled(hidden)
        for layer in self._module.layers:
            hidden = hidden + self._attention(layer.self_attn, layer.self_attn_layer_norm(hidden), rows)
            inner = layer.activation_fn(layer.fc1(layer.final_layer_norm(hidden)))
            hidden = hidden + layer.fc2(inner)
        tokens = rows // 2
        pooled = (hidden[0 : 2 * tokens : 2] + hidden[1 : 2 * tokens : 2]) / 2
        found: torch.Tensor = self._module.proj(filled(self._module.ln_post(pooled)))
        return found[:tokens]

    def _convolved(self, values: torch.Tensor) -> torch.Tensor:
        """Both convolutions and the positions: [mel bins, frames] -> [rows, width]. Windows do not see each other."""
        first, second = self._module.conv1, self._module.conv2
        windows = torch.split(values.T, 2 * self._window)
        heard = gelu(_product(first, [_seen(window, 1) for window in windows]))
        heard = gelu(_product(second, [_seen(part, 2) for part in torch.split(heard, 2 * self._window)]))
        positions = self._module.positional_embedding.positional_embedding
        return torch.cat([part + positions[: len(part)] for part in torch.split(heard, self._window)])

    def _attention(self, layer: Any, hidden: torch.Tensor, rows: int) -> torch.Tensor:
        """Attention within each window, output projection included: [filled rows, width] -> the same."""
        split = [
            project(hidden)[:rows].view(rows, self._heads, -1).transpose(0, 1)[None]
            for project in (layer.q_proj, layer.k_proj, layer.v_proj)
        ]
        windows = zip(*(torch.split(part, self._window, dim=2) for part in split), strict=True)
        seen = [scaled_dot_product_attention(q, k, v, scale=layer.scaling) for q, k, v in windows]
        attended = torch.cat([part[0].transpose(0, 1).reshape(part.shape[2], -1) for part in seen])
        found: torch.Tensor = layer.out_proj(filled(attended))
        return found


def _seen(rows: torch.Tensor, stride: int) -> torch.Tensor:
    """What each output of a convolution sees of `rows` [n, width]: [ceil(n / stride), width * 3]."""
    around = pad(rows, (0, 0, 1, 1)).unfold(0, _SEEN, stride)
    return around.reshape(len(around), -1)


def _product(convolution: Any, seen: list[torch.Tensor]) -> torch.Tensor:
    """A convolution of several pieces, end to end, as one matrix product."""
    rows = torch.cat(seen)
    return linear(filled(rows), convolution.weight.flatten(1), convolution.bias)[: len(rows)]
