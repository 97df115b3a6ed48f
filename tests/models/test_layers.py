"""The parts of a layer give the bits that transformers' own modules give, in fewer calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import silu

from specdec_cli.models import layers
from specdec_cli.models.layers import Layer, norm
from tests.tiny import tiny_module

MKL = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="equal bits are promised for MKL's kernels only")
ROWS = (4, 8, 12, 64, 100, 400)


def _layer(width: int, seed: int = 0) -> Any:
    module: Any = tiny_module(seed, layers=1, hidden=width)
    layer = module.model.language_model.layers[0]
    generator = torch.Generator().manual_seed(seed)
    for weight in layer.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return layer


def _rows(count: int, width: int) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count)) * 3


@MKL
@pytest.mark.parametrize("width", [32, 128, 192, 512])
def test_the_bits_are_those_of_the_modules(width: int) -> None:
    layer = _layer(width)
    attention, mlp = layer.self_attn, layer.mlp
    wanted = [
        (
            layer.input_layernorm(rows),
            layer.post_attention_layernorm(rows),
            torch.cat([part(rows) for part in (attention.q_proj, attention.k_proj, attention.v_proj)], dim=-1),
            mlp.down_proj(silu(mlp.gate_proj(rows)) * mlp.up_proj(rows)),
        )
        for rows in (_rows(count, width) for count in ROWS)
    ]
    ours = Layer(layer)
    for count, expected in zip(ROWS, wanted, strict=True):
        rows = _rows(count, width)
        found = (ours.norm_before(rows), ours.norm_behind(rows), ours.queries_keys_values(rows), ours.mlp(rows))
        for mine, theirs in zip(found, expected, strict=True):
            assert torch.equal(mine, theirs), count


def test_joined_weights_are_held_once_and_follow_changes_in_place() -> None:
    layer = _layer(32)
    names = list(layer.state_dict())
    held = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}
    ours = Layer(layer)
    assert list(layer.state_dict()) == names
    assert len({weight.untyped_storage().data_ptr() for weight in layer.parameters()}) < len(held)
    rows, before = _rows(4, 32), ours.queries_keys_values(_rows(4, 32))
    layer.self_attn.k_proj.weight.mul_(2)
    layer.self_attn.k_proj.bias.add_(1)
    after = ours.queries_keys_values(rows)
    assert not torch.equal(after, before)
    queries = layer.self_attn.q_proj(rows)
    torch.testing.assert_close(after[:, : queries.shape[1]], queries)
    torch.testing.assert_close(after[:, queries.shape[1] :][:, :16], layer.self_attn.k_proj(rows))


@pytest.mark.parametrize("why", ["16 bit", "a hook", "large"])
def test_what_cannot_be_joined_goes_through_the_modules(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer(32)
    if why == "16 bit":
        layer.to(torch.bfloat16)
    if why == "a hook":
        for module in layer.modules():
            module.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 0.5,))
    if why == "large":
        monkeypatch.setattr(layers, "JOINED_MOST", 32 * 32)
    rows = _rows(4, 32).to(layer.self_attn.q_proj.weight.dtype)
    attention = layer.self_attn
    wanted = torch.cat([part(rows) for part in (attention.q_proj, attention.k_proj, attention.v_proj)], dim=-1)
    through, normed = layer.mlp(rows), layer.input_layernorm(rows)
    pointers = [weight.data_ptr() for weight in layer.parameters()]
    ours = Layer(layer)
    assert [weight.data_ptr() for weight in layer.parameters()] == pointers
    assert torch.equal(ours.queries_keys_values(rows), wanted)
    assert torch.equal(ours.mlp(rows), through)
    assert torch.equal(norm(layer.input_layernorm)(rows), normed)
