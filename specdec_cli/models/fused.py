"""Decoder layers with fewer and larger operations, equal but for rounding.

In a recorded step a GPU spends some 3 us on every kernel, however small. So q/k/v and gate/up become one product each
(their weights are joined once; the layers' own become views of the joined ones), a norm one operation, and rope three
operations for queries and keys together. Queries that share keys become rows of one product; no key is repeated.

Layers of all families are built alike. A layer is changed only if its outputs for random inputs stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from types import MethodType
from typing import Any, Final, TypeAlias

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from specdec_cli.models.families import CACHE
from specdec_cli.models.kernels import FastLinear

_Forward: TypeAlias = Callable[..., Any]
_Angles: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_CLOSE: Final = {torch.float32: 1e-4, torch.float16: 2e-2}
"""Largest difference that rounding explains, as a share of the largest output; bfloat16: five times float16's."""
_TOKENS: Final = 3  # of the random inputs


@torch.inference_mode()
def fuse_layers(module: Any) -> int:
    """Fuses norms, attentions and MLPs of a decoder whose weights are loaded; returns how many.

    Layers that are spread over devices, or of another build, stay as they are.
    """
    decoder = module.get_decoder()
    parts = [part for part in decoder.modules() if not hasattr(part, "_hf_hook")]
    norms = {part: _norm for part in parts if _is_norm(part)}
    mlps = {part: _mlp(part) for part in parts if _is_mlp(part)}
    fused = {part: forward for part, forward in (norms | mlps).items() if _is_equal(part, forward)}
    attentions = {part: _attention(part) for part in parts if hasattr(part, "q_proj")}
    rotary = getattr(decoder, "rotary_emb", None)
    # all of them or none: they share the angles
    if rotary is not None and all(_attends_equally(part, forward) for part, forward in attentions.items()):
        fused |= attentions
        rotary.forward = _signed_angles(rotary.forward)
    for part, forward in fused.items():
        part.forward = MethodType(forward, part)
    return len(fused)


def rotate(heads: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> torch.Tensor:
    """Turns heads [B, q, heads, width] by angles [B, q, 1, width], whose sines are negated in the first half.

    RoPE of Su et al. (2021) as transformers lays it out: x cos + rotate_half(x) sin.
    """
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), signed_sin)


def signed(angles: _Angles) -> _Angles:
    """Cosines and sines [B, q, width] as `rotate` takes them."""
    cos, sin = angles
    half = sin.shape[-1] // 2
    return cos[:, :, None], torch.cat((-sin[..., :half], sin[..., half:]), -1)[:, :, None]


def _signed_angles(forward: _Forward) -> _Forward:
    return lambda *args, **kwargs: signed(forward(*args, **kwargs))


def _norm(part: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(hidden_states, part.weight.shape, part.weight, part.variance_epsilon)


def _mlp(part: Any) -> _Forward:
    join = _joined([part.gate_proj, part.up_proj])

    def forward(part: Any, hidden_state: torch.Tensor) -> torch.Tensor:
        gate, up = join(hidden_state).chunk(2, -1)
        made: torch.Tensor = part.down_proj(part.act_fn(gate) * up)
        return made

    return forward


def _attention(part: Any) -> _Forward:
    width, layers = part.head_dim, [part.q_proj, part.k_proj, part.v_proj]
    join = _joined(layers)
    queries, keys, _ = (layer.out_features // width for layer in layers)
    normed = _joined_norm(part, queries, keys)

    def forward(
        part: Any,
        hidden_states: torch.Tensor,
        position_embeddings: _Angles,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        cache = kwargs.pop(CACHE, None)
        clips, tokens, _ = hidden_states.shape
        heads = join(hidden_states).view(clips, tokens, -1, width)
        turned = rotate(normed(heads[:, :, : queries + keys]), *position_embeddings).transpose(1, 2)
        query, key, value = turned[:, :queries], turned[:, queries:], heads[:, :, queries + keys :].transpose(1, 2)
        if cache is not None:
            # code compiled once for all layers gets a cache of one layer, see `StepCache`
            key, value = cache.update(key, value, part.layer_idx if len(cache.layers) > 1 else 0)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(part.config._attn_implementation, None)
        if attention_mask is not None and queries > keys and part.config._attn_implementation == "sdpa":
            attended = _attend_by_shared_keys(query, key, value, attention_mask, part.scaling)
        else:
            attended, _ = attend(part, query, key, value, attention_mask, dropout=0.0, scaling=part.scaling, **kwargs)
        made: torch.Tensor = part.o_proj(attended.reshape(clips, tokens, -1))
        return made, None

    return forward


def _attend_by_shared_keys(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Attention of queries [B, heads, q, width] that share keys [B, fewer heads, n, width] -> [B, q, heads, width].

    The queries of one key are rows of one product. The mask is [B, 1, q, n].
    """
    clips, heads, tokens, width = query.shape
    shared = heads // key.shape[1]
    if tokens > 1:
        mask = mask.repeat(1, 1, shared, 1)
    rows = query.reshape(clips, key.shape[1], shared * tokens, width)
    made = functional.scaled_dot_product_attention(rows, key, value, attn_mask=mask, scale=scaling)
    return made.view(clips, heads, tokens, width).transpose(1, 2)


def _joined_norm(part: Any, queries: int, keys: int) -> _Forward:
    """The norms of queries and keys as one operation; for an attention without norms, nothing."""
    if not hasattr(part, "q_norm"):
        return lambda heads: heads
    of_each = ((part.q_norm, queries), (part.k_norm, keys))
    weight = torch.cat([norm.weight.expand(count, -1) for norm, count in of_each])

    def normed(heads: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(heads, heads.shape[-1:], None, part.q_norm.variance_epsilon) * weight

    return normed


def _joined(layers: Sequence[Any]) -> _Forward:
    """The outputs of layers with the same input, end to end: one product if the layers are plain."""
    if not all(type(layer) in (nn.Linear, FastLinear) and type(layer.weight.data) is torch.Tensor for layer in layers):
        return lambda x: torch.cat([layer(x) for layer in layers], -1)
    sizes, first = [layer.out_features for layer in layers], layers[0]
    made = nn.Linear(first.in_features, sum(sizes), first.bias is not None, device="meta")
    for name in ("weight", "bias") if first.bias is not None else ("weight",):
        whole = torch.cat([getattr(layer, name).data for layer in layers])
        setattr(made, name, nn.Parameter(whole, requires_grad=False))
        for layer, own in zip(layers, whole.split_with_sizes(sizes), strict=True):
            getattr(layer, name).data = own  # no memory is taken twice
    return FastLinear(made) if first.weight.device.type == "cpu" else made


def _is_norm(part: Any) -> bool:
    return type(part).__name__.endswith("RMSNorm") and hasattr(part, "variance_epsilon")


def _is_mlp(part: Any) -> bool:
    layers = [getattr(part, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    return all(isinstance(layer, nn.Linear) for layer in layers) and hasattr(part, "act_fn")


def _is_equal(part: Any, forward: _Forward) -> bool:
    width = part.gate_proj.in_features if _is_mlp(part) else part.weight.shape[-1]
    x = _random(part, width)
    return _agree(forward(part, x), part(x))


def _attends_equally(part: Any, forward: _Forward) -> bool:
    x, angles = _random(part, part.q_proj.in_features), _random(part, part.head_dim // 2)
    angles = torch.cat((angles, angles), -1)
    pair = angles.cos(), angles.sin()
    ours, _ = forward(part, x, position_embeddings=signed(pair))
    return _agree(ours, part(x, position_embeddings=pair, attention_mask=None)[0])


def _random(part: Any, width: int) -> torch.Tensor:
    weight = next(each for each in chain(part.parameters(), part.buffers()) if each.is_floating_point())
    made = torch.randn(1, _TOKENS, width, generator=torch.Generator().manual_seed(0))
    return made.to(weight.device, weight.dtype)


def _agree(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    allowed = _CLOSE.get(theirs.dtype, 5 * _CLOSE[torch.float16])
    return bool((ours - theirs).abs().max() <= allowed * theirs.abs().max())
