"""The token-by-token parts of a Qwen2 decoder layer: norms, projections and MLP, in as few calls as give equal bits.

In a small model a call costs more than its arithmetic. Where the numbers are float32 on the CPU, the norm is PyTorch's
own and the products that share their input are one product over weights that lie side by side; both give the bits
that transformers' modules give (the tests compare them). Everywhere else the modules are called as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch
from torch import nn
from torch.nn.functional import linear, rms_norm, silu
from transformers.activations import SiLUActivation

Rowwise = Callable[[torch.Tensor], torch.Tensor]
"""[rows, width] -> [rows, other width], each row by itself."""

Angles: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Cosine and signed sine at the position of each row: two of [rows, 1, head_dim]."""

Entered: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""What an attention is given: turned queries and keys [rows, their heads, head_dim], and values of the same form."""

Matrix: TypeAlias = tuple[torch.Tensor, torch.Tensor | None]
"""Weight [width out, width in] and bias of a linear layer."""

JOINED_MOST: Final = 2**20
"""Weights of a joined product, at most: above, the arithmetic outweighs the call, and joining is for nothing."""


class Layer:
    """What a decoder layer does around its attention.

    Args:
        module: transformers' decoder layer. Its projections may come to share memory; they go on working as they did,
            and see every change that is made to their weights in place.

    Attributes:
        norm_before, norm_behind: in front of the attention, and behind it in front of the MLP.
        queries_keys_values: [rows, width] -> the three projections side by side.
        out: the output projection of the attention.
        mlp: the MLP.
    """

    def __init__(self, module: Any) -> None:
        attention = module.self_attn
        self.norm_before = norm(module.input_layernorm)
        self.norm_behind = norm(module.post_attention_layernorm)
        self.queries_keys_values = side_by_side((attention.q_proj, attention.k_proj, attention.v_proj))
        self.out: Rowwise = attention.o_proj
        self.mlp = _mlp(module.mlp)


class Parts:
    """All that a decoder does before, between and behind its attentions, each [rows, hidden] by itself.

    Args:
        module: transformers' text model.
    """

    def __init__(self, module: Any) -> None:
        config = module.config
        self._turning = int(config.num_attention_heads) + int(config.num_key_value_heads)
        self._heads = self._turning + int(config.num_key_value_heads)
        self._layers = [Layer(layer) for layer in module.layers]
        self._norm = norm(module.norm)

    def before(self, hidden: torch.Tensor, angles: Angles) -> Entered:
        """What the first attention is given."""
        return self._enter(self._layers[0], hidden, angles)

    def between(
        self, index: int, hidden: torch.Tensor, found: torch.Tensor, angles: Angles
    ) -> tuple[torch.Tensor, Entered]:
        """The rows behind layer `index`, whose attention found [rows, heads * head_dim], and what the next is given."""
        hidden = self._leave(self._layers[index], hidden, found)
        return hidden, self._enter(self._layers[index + 1], hidden, angles)

    def behind(self, hidden: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """The rows behind the last layer and its norm."""
        return self._norm(self._leave(self._layers[-1], hidden, found))

    def _enter(self, layer: Layer, hidden: torch.Tensor, angles: Angles) -> Entered:
        projected = layer.queries_keys_values(layer.norm_before(hidden)).view(len(hidden), self._heads, -1)
        turned = projected[:, : self._turning]
        # Halves swapped, times the sine with the sign of the first half turned: transformers' rotate_half in one piece.
        cos, sin = angles
        turned = torch.addcmul(turned * cos, turned.roll(turned.shape[-1] // 2, -1), sin)
        return turned, projected[:, self._turning :]

    def _leave(self, layer: Layer, hidden: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        hidden = hidden + layer.out(found)
        return hidden + layer.mlp(layer.norm_behind(hidden))


def norm(module: Any) -> Rowwise:
    """transformers' RMSNorm, or the same in one call."""
    weight, epsilon = module.weight, module.variance_epsilon
    if not _plain_numbers(weight) or _replaced(module):
        return module  # type: ignore[no-any-return]
    return lambda rows: rms_norm(rows, weight.shape, weight, epsilon)


def side_by_side(modules: Sequence[nn.Linear]) -> Rowwise:
    """The outputs of linear layers that share their input, side by side, by one product if they can be joined."""
    joined = _join(modules)
    if joined is None:
        return lambda rows: torch.cat([module(rows) for module in modules], dim=-1)
    weight, bias = joined
    return lambda rows: linear(rows, weight, bias)


def _mlp(module: Any) -> Rowwise:
    joined = _join((module.gate_proj, module.up_proj)) if isinstance(module.act_fn, SiLUActivation) else None
    if joined is None or _replaced(module):
        return module  # type: ignore[no-any-return]
    weight, bias = joined
    down, width = module.down_proj, len(module.gate_proj.weight)

    def through(rows: torch.Tensor) -> torch.Tensor:
        both = linear(rows, weight, bias)
        # over columns that do not lie together PyTorch computes some exponentials by another formula
        found: torch.Tensor = down(silu(both[:, :width].contiguous()) * both[:, width:])
        return found

    return through


def _join(modules: Sequence[nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """(weight, bias) of all `modules` in one, whose own become views of it; None if they cannot be joined."""
    biases = [module.bias for module in modules if module.bias is not None]
    if not all(type(module) is nn.Linear and not _replaced(module) for module in modules) or (
        len(biases) not in (0, len(modules))
        or not all(map(_plain_numbers, [*(module.weight for module in modules), *biases]))
        or sum(module.weight.numel() for module in modules) > JOINED_MOST
    ):
        return None
    return _lay_together([module.weight for module in modules]), _lay_together(biases) if biases else None


def matrices(modules: Sequence[nn.Linear]) -> tuple[Matrix, ...] | None:
    """The weights of linear layers that share their input: one for all if they can be joined, else each its own.

    None if they are more than numbers, or something else runs than the layers' own code.
    """
    joined = _join(modules)
    if joined is not None:
        return (joined,)
    if not all(
        type(module) is nn.Linear and not _replaced(module) and type(module.weight.data) is torch.Tensor
        for module in modules
    ):
        return None
    biases = [None if module.bias is None else module.bias.detach() for module in modules]
    return tuple((module.weight.detach(), bias) for module, bias in zip(modules, biases, strict=True))


def _lay_together(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """All parts in one tensor, one behind the other; each goes on as a view of its place, so nothing is held twice."""
    whole = torch.cat([part.detach() for part in parts])
    for part, place in zip(parts, whole.split_with_sizes([len(part) for part in parts]), strict=True):
        part.data = place
    return whole


def _plain_numbers(weight: torch.Tensor) -> bool:
    """Whether it is float32 on the CPU and nothing but numbers: quantised weights pass for tensors, too."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and type(weight.data) is torch.Tensor


def _replaced(module: nn.Module) -> bool:
    """Whether something else than the module's own code runs when it is called, as where weights are moved about."""
    return "forward" in vars(module) or bool(module._forward_hooks or module._forward_pre_hooks)
