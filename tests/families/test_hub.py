"""Configurations of the hub's checkpoints load, shrunken, or are refused in words before any weight is read."""

import json

import pytest
import torch

from specdec_cli.models.processor import test_sound as rising_tone
from specdec_cli.models.session import Session
from tests.families.hub import write_shrunken
from tests.support.checkpoints import assert_refused, load, write_json

REFUSED = {
    "glm-asr-nano": "is of type 'glmasr'",
    **dict.fromkeys(("granite-speech-3.2-8b", "granite-speech-3.3-2b", "granite-speech-3.3-8b"), "has a LoRA adapter"),
}
QUANTISED = ("Qwen2.5-Omni-7B-AWQ", "Qwen2.5-Omni-7B-GPTQ-Int4")  # transformers loads them on a GPU
EOS = {"gemma-4-E2B-it": (1, 106), "gemma-4-E4B-it": (1, 106), "granite-speech-4.x": (100257,)}


@pytest.mark.slow
def test_every_published_configuration_loads_or_is_refused(tmp_path, data):
    root = data / "published" / "configs"
    files = sorted([*root.glob("*/config.json"), *root.glob("_fixtures/*/config.json")])
    if not files:
        pytest.skip("no published configurations beside the data")
    for file in files:
        name, raw, folder = file.parent.name, json.loads(file.read_text(encoding="utf-8")), tmp_path / file.parent.name
        if name in REFUSED:
            folder.mkdir()
            write_json(folder / "config.json", raw)  # nothing else: no weight is looked at
            assert_refused(folder, REFUSED[name])
        elif name not in QUANTISED:
            model = load(write_shrunken(folder, raw, file.parent))
            assert model.dtype == torch.bfloat16, "the number format of the stored weights, whatever is declared"
            assert str(model.self_test).startswith("passed")
            assert model.processor.eos_ids == EOS.get(name, (151645,))
            session = Session(model, model.processor.prompt(rising_tone(1.0, 16000), "say how"), 4)
            assert session.logits((300, 301), 3).isfinite().any()
