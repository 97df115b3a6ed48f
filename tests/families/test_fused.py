"""Fused layers and compiled steps score as transformers' own layers, in every family; what differs is left alone."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from specdec_cli.models.compiled_steps import let_layers_compile
from specdec_cli.models.fused import fuse_layers, rotate, signed
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from specdec_cli.models.slots import Slots, _Shape
from tests.families.running import JOINING, joining, model, prompt
from tests.support.checkpoints import load
from tests.support.kinds import KINDS, write
from tests.support.models import tiny_model, tiny_module

TEXT = (65, 66, 200, 67, 68, 201)


@joining
def test_every_layer_of_every_family_is_fused_and_scores_alike(tmp_path, family):
    fused = load(write(tmp_path / "model", KINDS[family], 0), graphs="on")
    changed = Counter(type(part).__name__ for part in fused.module.get_decoder().modules() if "forward" in vars(part))
    kinds = {"Attention": 2, "RMSNorm": 9 if family == "qwen3-omni" else 5, "RotaryEmbedding": 1}
    kinds["MLP"] = 0 if family == "qwen3-omni" else 2  # experts, which the library joins itself
    for kind, count in kinds.items():
        assert sum(number for name, number in changed.items() if name.endswith(kind)) == count
    assert (fused.self_test, fused.slots is not None) == ("passed", True)
    assert not any("forward" in vars(part) for part in model(family, 0).module.get_decoder().modules())
    scores = []
    for of in (fused, model(family, 0)):
        session = Session(of, prompt(of, 1), 20)
        scores.append(torch.cat([session.logits(TEXT[:2], 2), session.logits(TEXT, 4)]))
    torch.testing.assert_close(*scores, atol=1e-3, rtol=1e-4)


def test_joined_weights_take_no_memory_twice():
    module = tiny_module(0)
    before = {name: weight.clone() for name, weight in module.named_parameters()}
    assert fuse_layers(module) == 9
    assert all(torch.equal(weight, before[name]) for name, weight in module.named_parameters())
    layer = module.get_decoder().layers[0]
    storages = {part.weight.untyped_storage().data_ptr() for part in (layer.mlp.gate_proj, layer.mlp.up_proj)}
    assert len(storages) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_heads_turn_as_the_library_turns_them(dtype):
    from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

    torch.manual_seed(0)
    heads, angles = torch.randn(2, 5, 3, 8, dtype=dtype), torch.randn(2, 5, 4).repeat(1, 1, 2)
    pair = angles.cos().to(dtype), angles.sin().to(dtype)
    theirs, _ = apply_rotary_pos_emb(heads.transpose(1, 2), heads.transpose(1, 2), *pair)
    allowed = 4 * torch.finfo(dtype).eps  # for heads and angles of about 1
    torch.testing.assert_close(rotate(heads, *signed(pair)).transpose(1, 2), theirs, atol=allowed, rtol=0.0)


def test_a_layer_of_another_build_keeps_its_own_forward(monkeypatch):
    """A norm with one plus its weight, and an attention whose outputs are scaled."""
    module = tiny_module(1)
    decoder = module.get_decoder()
    norm, attention = type(decoder.norm).forward, type(decoder.layers[0].self_attn).forward

    def shifted(part: Any, x: torch.Tensor) -> Any:
        return norm(part, x) * (1 + part.weight)

    def scaled(part: Any, *args: Any, **kwargs: Any) -> Any:
        made, weights = attention(part, *args, **kwargs)
        return made * 1.01, weights

    monkeypatch.setattr(type(decoder.norm), "forward", shifted)
    monkeypatch.setattr(type(decoder.layers[0].self_attn), "forward", scaled)
    assert fuse_layers(module) == 2  # the MLPs
    assert "forward" not in vars(decoder.rotary_emb)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize("family", JOINING)
def test_a_compiled_step_of_every_family_scores_alike(tmp_path, monkeypatch, family):
    """Its graph does, of which no code is made here: that takes ten seconds a family, and the next test does it."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    module = load(write(tmp_path / "model", KINDS[family], 0), graphs="on").module
    plain, compiled = (Slots(module, 2, compiled=way) for way in (False, True))
    with torch.inference_mode():
        for slots in (plain, compiled):
            slots._inputs = {(1, size): slots._padded([(0, 0, 7)], _Shape(1, size, 512)) for size in (1, 9)}
            slots._forward(_Shape(1, 9, 512))  # the layers take their memory
        expected = plain._forward(_Shape(1, 1, 512))
        let_layers_compile(module)
        torch._dynamo.reset()
        counters.clear()
        torch.testing.assert_close(compiled._forward(_Shape(1, 1, 512)), expected, atol=1e-4, rtol=1e-4)
    assert (counters["stats"]["unique_graphs"], len(counters["graph_break"])) == (1, 0)  # it was compiled


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_clip_scores_alike_with_compiled_steps_of_every_room(monkeypatch, caplog):
    """More forms than PyTorch compiles of a function by default."""
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 1)
    scores = []
    for compiled in (False, True):
        of = tiny_model(1, layers=2, graphs="on", compiled=compiled)
        assert of.describe()["graphs"] == ("compiled" if compiled else "eager")
        self_test(of)
        assert of.self_test == "passed"
        session = Session(of, prompt(of, 1), 20)
        scores.append(torch.cat([session.logits(TEXT[:end]) for end in range(1, len(TEXT))]))
    torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)
    assert "runs without" not in caplog.text
