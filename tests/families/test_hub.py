"""Configurations of the hub's checkpoints load, shrunken, or are refused in words before any weight is read."""

import json
from pathlib import Path

import pytest
import torch

from specdec_cli.models.processor import test_sound as rising_tone
from specdec_cli.models.session import Session
from tests.families.hub import Raw, write_shrunken
from tests.models.checkpoints import assert_refused, load, write_json

QUANTIZED: Raw = {"model_type": "qwen2_5_omni", "thinker_config": {}}
OTHERS = {
    "gemma-4-E2B-it-assistant": "gemma4_assistant",
    "glm-asr-nano": "glmasr",
    "MOSS-Audio-4B": "moss_audio",
    "Nemotron-3-Nano-Omni": "nemotron_h_omni",
    "Phi-4-multimodal-instruct": "phi4_multimodal",
}
GRANITES = ("granite-speech-3.2-8b", "granite-speech-3.3-2b", "granite-speech-3.3-8b")
ADAPTED: Raw = {"model_type": "granite_speech", "has_lora_adapter": True}
REFUSED: dict[str, tuple[Raw, str, str]] = {
    **{
        f"Qwen2.5-Omni-7B-{method}": (
            QUANTIZED | {"quantization_config": {"quant_method": method.lower()[:4].rstrip("-"), "bits": 4}},
            "publisher quantised",
            "quantization: int4",
        )
        for method in ("AWQ", "GPTQ-Int4")
    },
    "gemma-4-31B-it": ({"model_type": "gemma4", "audio_config": None}, "has no audio encoder", "gemma-4-E4B-it"),
    **{name: ({"model_type": kind}, f"is of type '{kind}'", "specdec doctor") for name, kind in OTHERS.items()},
    "Phi-4-multimodal": ({"model_type": "phi4_multimodal"}, "no cache can be rolled back exactly", "vLLM server"),
    "MOSS-Audio-8B": ({"model_type": "moss_audio"}, "--config moss-audio-vllm-pair", "vLLM server"),
    **dict.fromkeys(GRANITES, (ADAPTED, "LoRA adapter", "has_lora_adapter: false")),
}
"""What matters in the config.json of published checkpoints that cannot be loaded, why, and what to do instead."""
EOS = {"gemma-4-E2B-it": (1, 106), "gemma-4-E4B-it": (1, 106), "granite-speech-4.x": (100257,)}


def _assert_loads(folder: Path, name: str) -> None:
    model = load(folder)
    assert model.dtype == torch.bfloat16, "the number format of the stored weights, whatever is declared"
    assert str(model.self_test).startswith("passed")
    assert model.processor.eos_ids == EOS.get(name, (151645,))
    session = Session(model, model.processor.prompt(rising_tone(1.0, 16000), "say how"), 4)
    assert session.logits((300, 301), 3).isfinite().any()


def _assert_refused(folder: Path, raw: Raw) -> None:
    folder.mkdir()
    write_json(folder / "config.json", raw)
    write_json(folder / "tokenizer.json", {})  # nothing else: no weight is looked at
    _, why, instead = REFUSED[folder.name]
    assert_refused(folder, why, instead)


@pytest.mark.parametrize("name", REFUSED)
def test_a_configuration_of_no_use_is_refused_before_any_weight_is_read(tmp_path, name):
    _assert_refused(tmp_path / name, REFUSED[name][0])


@pytest.mark.full
def test_every_published_configuration_loads_or_is_refused(tmp_path, data):
    root = data / "published" / "configs"
    files = sorted([*root.glob("*/config.json"), *root.glob("_fixtures/*/config.json")])
    if not files:
        pytest.skip("no published configurations beside the data")
    for file in files:
        name, raw = file.parent.name, json.loads(file.read_text(encoding="utf-8"))
        if name in REFUSED:
            _assert_refused(tmp_path / name, raw)
        else:
            _assert_loads(write_shrunken(tmp_path / name, raw, file.parent), name)
