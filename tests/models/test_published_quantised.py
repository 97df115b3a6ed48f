"""Weights that publishers quantised: loaded as the numbers that they stand for, or refused with what to install."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AwqConfig
from transformers.quantizers.auto import AutoQuantizationConfig

from specdec_cli.config import ModelConfig
from specdec_cli.models.checkpoint import open_checkpoint
from specdec_cli.models.limits import outline, require_held
from specdec_cli.models.loading import forecast
from tests.families.checkpoints import KINDS, write
from tests.models.checkpoints import assert_refused, edit_json, greedy, load
from tests.tiers import few

BLOCK = 16
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [BLOCK, BLOCK]}
PER_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
GROUP = {"targets": ["Linear"], "weights": PER_CHANNEL, "input_activations": None, "output_activations": None}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "quantization_status": "compressed",
} | {"ignore": ["lm_head", "re:.*audio.*"], "config_groups": {"group_0": GROUP}}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
Stored = dict[str, torch.Tensor]
By = Callable[[str, torch.Tensor], tuple[Stored, torch.Tensor]]


def by_blocks(name: str, weight: torch.Tensor) -> tuple[Stored, torch.Tensor]:
    """A weight [m, n] in FP8 with a scale for each block, as DeepSeek and Qwen publish them, and its numbers."""
    rows, columns = (-(-each // BLOCK) for each in weight.shape)
    padded = torch.zeros(rows * BLOCK, columns * BLOCK)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    blocks = padded.reshape(rows, BLOCK, columns, BLOCK)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-6) / 448
    stored = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    numbers = (stored.float() * scales[:, None, :, None]).reshape(padded.shape)
    kept = slice(None, weight.shape[0]), slice(None, weight.shape[1])
    return {name: stored.reshape(padded.shape)[kept], f"{name}_scale_inv": scales}, numbers[kept]


def by_rows(name: str, weight: torch.Tensor) -> tuple[Stored, torch.Tensor]:
    """A weight [m, n] in FP8 with a scale for each row, as llm-compressor writes it, and its numbers."""
    scales = weight.abs().amax(1, keepdim=True).clamp(min=1e-6) / 448
    stored = (weight / scales).to(torch.float8_e4m3fn)
    return {name: stored, f"{name}_scale": scales}, stored.float() * scales


def assert_numbers(folder: Path, config: dict[str, Any], by: By, family: str) -> None:
    """A checkpoint whose decoder is quantised as publishers do has the weights of one that stores their numbers."""
    plain = write(folder / "plain", KINDS[family], 0)
    published = write(folder / "published", KINDS[family], 0)
    whole, kept = load_file(plain / "model.safetensors"), Stored()
    for name, weight in whole.items():
        kept[name] = weight
        if name.endswith("_proj.weight") and ".layers." in name and "audio" not in name and weight.ndim == 2:
            del kept[name]
            stored, whole[name] = by(name, weight.float())
            kept |= stored
    for at, tensors in ((plain, whole), (published, kept)):
        contiguous = {name: weight.contiguous() for name, weight in tensors.items()}
        save_file(contiguous, at / "model.safetensors", {"format": "pt"})
    assert len(kept) > len(whole)
    edit_json("config.json", quantization_config=config)(published)
    model, same = load(published), load(plain)
    assert str(model.self_test).startswith("passed")
    wanted = same.module.state_dict()
    found = model.module.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], weight) for name, weight in wanted.items())
    assert greedy(model) == greedy(same)


@pytest.mark.parametrize("family", few(["qwen2-audio", "qwen2.5-omni", "qwen3-omni", "gemma4"]))
def test_fp8_weights_are_the_numbers_that_they_stand_for(family, tmp_path):
    assert_numbers(tmp_path, FP8, by_blocks, family)
    sizes = [
        forecast(ModelConfig(model=str(tmp_path / name), device="cpu"), offline=True)[0].bytes
        for name in ("plain", "published")
    ]
    assert sizes[0] == sizes[1]


def test_compressed_tensors_are_the_numbers_that_they_stand_for(tmp_path):
    pytest.importorskip("compressed_tensors")
    assert_numbers(tmp_path, COMPRESSED, by_rows, "qwen2-audio")


def published(folder: Path, config: dict[str, Any]) -> Path:
    """A checkpoint that says so of itself; its weights are looked at by none of these tests."""
    write(folder, KINDS["qwen2-audio"], 0)
    edit_json("config.json", quantization_config=config)(folder)
    return folder


@pytest.mark.parametrize(("config", "method"), [(AWQ, "awq"), (GPTQ, "gptq")])
def test_packed_weights_need_a_gpu(config, method, tmp_path):
    says = f"quantised ({method}), which only a GPU runs"
    assert_refused(published(tmp_path / "a", config), says, "quantization: int4", device="cpu")


@pytest.mark.parametrize(
    ("config", "packages"), [(AWQ, "gptqmodel"), (GPTQ, "gptqmodel optimum"), (COMPRESSED, "compressed-tensors")]
)
def test_what_is_to_be_installed_is_named(config, packages, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("specdec_cli.models.checkpoint.find_spec", lambda _: None)
    assert_refused(published(tmp_path / "a", config), "which needs", f"pip install {packages}.", device="cuda")


def test_weights_are_not_quantised_twice(tmp_path):
    folder = published(tmp_path / "a", FP8)
    assert_refused(folder, "and quantization is int4", "Leave quantization out", quantization="int4")


def test_other_methods_are_refused(tmp_path):
    folder = published(tmp_path / "a", {"quant_method": "hqq"})
    assert_refused(folder, "quantised (hqq), which specdec does not load", "quantization: int4")


def test_a_packed_checkpoint_is_handed_to_transformers_as_it_is(tmp_path, monkeypatch):
    """Its kernels need a GPU: how it is recognised, measured and handed on is what can be tested without."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("specdec_cli.models.checkpoint.find_spec", lambda _: True)
    folder = published(tmp_path / "a", AWQ)
    with open_checkpoint(ModelConfig(model=str(folder), device="cuda"), offline=True) as checkpoint:
        assert checkpoint.quantised_by == "awq"
        made = AutoQuantizationConfig.from_dict(checkpoint.module_config.quantization_config)
        module = outline(checkpoint.family.module_class, checkpoint.module_config, "a")
        require_held(module, checkpoint.weights, "a", packed=True)
    assert isinstance(made, AwqConfig)
    assert (made.bits, made.group_size) == (4, 128)
    with open_checkpoint(ModelConfig(model=str(published(tmp_path / "b", FP8))), offline=True) as checkpoint:
        assert json.loads(json.dumps(checkpoint.module_config.quantization_config)) == FP8 | {"dequantize": True}
