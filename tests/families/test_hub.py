"""Configurations of the hub's checkpoints load, shrunken, or are refused in words before any weight is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.loading import load_model
from specdec_cli.models.session import Session
from tests.families.hub import Raw, refused, write_shrunken
from tests.families.running import sound
from tests.models.files import write_json

REFUSED = {
    "Qwen2.5-Omni-7B-AWQ": ("quantised with awq", "Qwen2.5-Omni-7B) with quantization: int4"),
    "Qwen2.5-Omni-7B-GPTQ-Int4": ("quantised with gptq", "Qwen2.5-Omni-7B) with quantization: int4"),
    "gemma-4-31B-it": ("has no audio encoder", "gemma-4-E4B-it"),
    "gemma-4-E2B-it-assistant": ("drafting head", "gemma-4-E2B-it"),
    "gemma-3n-E2B-it": ("timm and torchvision", "gemma-4-E2B-it"),
    "granite-speech-3.3-2b": ("has a LoRA adapter", "has_lora_adapter: false"),
    "granite-speech-3.3-8b": ("has a LoRA adapter", "has_lora_adapter: false"),
    "granite-speech-3.2-8b": ("has a LoRA adapter", "has_lora_adapter: false"),
    "Nemotron-3-Nano-Omni": ("recurrent layers", "specdec doctor"),
    "Phi-4-multimodal-instruct": ("LoRA adapter", "specdec doctor"),
    "MOSS-Audio-4B": ("'moss_audio', which transformers", "vLLM"),
}
EOS = {"gemma-4-E2B-it": (1, 106), "gemma-4-E4B-it": (1, 106), "granite-speech-4.x": (100257,)}
EOS |= {"glm-asr-nano": (59246, 59253, 59255)}


def _assert_loads(folder: Path, name: str) -> None:
    model = load_model(ModelConfig(model=str(folder), device="cpu"), offline=True)
    assert model.dtype == torch.bfloat16, "the number format of the stored weights, whatever is declared"
    assert str(model.self_test).startswith("passed")
    assert model.processor.eos_ids == EOS.get(name, (151645,))
    session = Session(model, model.processor.prompt(sound(1, 1.0), "say how"), 4)
    assert session.logits((300, 301), 3).isfinite().any()


def _assert_refused(folder: Path, name: str, raw: Raw) -> None:
    folder.mkdir()
    write_json(folder / "config.json", raw)
    write_json(folder / "tokenizer.json", {})  # nothing else: no weight is looked at
    with pytest.raises(CheckpointError) as caught:
        load_model(ModelConfig(model=str(folder), device="cpu"), offline=True)
    why, instead = REFUSED[name]
    assert why in caught.value.message
    assert instead in str(caught.value.hint)


@pytest.mark.parametrize(("name", "raw"), refused().items())
def test_a_configuration_of_no_use_is_refused_before_any_weight_is_read(tmp_path: Path, name: str, raw: Raw) -> None:
    _assert_refused(tmp_path / name, name, raw)


def _published(data: Path) -> list[Path]:
    root = data / "published" / "configs"
    return sorted([*root.glob("*/config.json"), *root.glob("_fixtures/*/config.json")])


@pytest.mark.full
def test_every_published_configuration_loads_or_is_refused(tmp_path: Path, data: Path) -> None:
    files = _published(data)
    if not files:
        pytest.skip("no published configurations beside the data")
    for file in files:
        name, raw = file.parent.name, json.loads(file.read_text(encoding="utf-8"))
        if name in REFUSED:
            _assert_refused(tmp_path / name, name, raw)
        else:
            _assert_loads(write_shrunken(tmp_path / name, raw, file.parent), name)
