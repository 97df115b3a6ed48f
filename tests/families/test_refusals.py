"""Checkpoints that cannot be run are refused in words when they are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers import DynamicCache

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models import families, loading
from specdec_cli.models.families import Family
from specdec_cli.models.loading import load_model
from specdec_cli.models.processor import test_sound as rising_tone
from specdec_cli.models.session import Session
from tests.families.checkpoints import KINDS, TEXT, write
from tests.families.equality import assert_agree
from tests.families.running import sound
from tests.models.files import edit_json


def load(folder: Path, **settings: Any) -> Any:
    """What the command line does with a folder, on the CPU."""
    return load_model(ModelConfig(model=str(folder), device="cpu", **settings), offline=True)


def refusal(folder: Path, **settings: Any) -> str:
    """The sentence and the hint of the refusal."""
    with pytest.raises(CheckpointError) as caught:
        load(folder, **settings)
    return f"{caught.value.message} {caught.value.hint}"


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    recurrent = {
        "model_type": "bamba",
        **TEXT,
        "num_hidden_layers": 2,
        "attn_layer_indices": [1],
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_expand": 2,
        "mamba_d_state": 8,
    }

    def config(ids: dict[str, int]) -> Any:
        made = KINDS["qwen2-audio"].config(ids)
        text = transformers.AutoConfig.for_model(**recurrent)
        return transformers.Qwen2AudioConfig(
            audio_config=made.audio_config.to_dict(), text_config=text, audio_token_index=ids["<|AUDIO|>"]
        )

    folder = write(tmp_path / "hybrid", replace(KINDS["qwen2-audio"], config=config), 0)
    assert "keeps a recurrent state" in refusal(folder)


@pytest.mark.parametrize("place", ["template", "first token"])
def test_a_model_that_reasons_is_refused(tmp_path: Path, place: str) -> None:
    kind = KINDS["qwen3-omni"]
    if place == "template":
        kind = replace(kind, template=kind.template.replace("assistant\n{%", "assistant\n<think>\n{%"))
    folder = write(tmp_path / "omni", kind, 7)  # weights that no other test has loaded, and so remembers
    if place == "first token":
        _call_first_token_think(folder)
    assert "reasons before it answers" in refusal(folder)


def _call_first_token_think(folder: Path) -> None:
    """Renames the token that the model's text begins with."""
    model = load_model(ModelConfig(model=str(folder), device="cpu"), offline=True, tested=False)
    first = int(Session(model, model.processor.prompt(rising_tone(1.0, 16000), "How?"), 1).logits(()).argmax())
    piece = model.processor.tokenizer.convert_ids_to_tokens(first)
    edit_json("tokenizer.json", **{f"model__vocab__{piece}": None, "model__vocab__<think>": first})(folder)


def test_an_instruction_that_mentions_reasoning_is_none(tmp_path: Path) -> None:
    model = load(write(tmp_path / "omni", KINDS["qwen3-omni"], 0))
    assert model.processor.prompt(rising_tone(1.0, 16000), "Say <think> aloud").ids


@pytest.mark.parametrize("family", ["voxtral", "granite-speech"])
def test_a_missing_package_is_named(tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "model", KINDS[family], 0)
    monkeypatch.setattr(families.family_named(family), "needs", ("no-such-package",))
    words = refusal(folder)
    assert "needs the package no-such-package, which is not installed" in words
    assert "pip install no-such-package" in words


def test_a_sliding_cache_that_loses_its_past_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def config(ids: dict[str, int]) -> Any:
        made = KINDS["gemma4"].config(ids)
        made.text_config.sliding_window = 200  # beyond the prompt of the self-test and a few tokens
        return made

    folder = write(tmp_path / "sliding", replace(KINDS["gemma4"], config=config), 0)
    assert load(folder).self_test == "passed; clips of a batch step one by one"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(DynamicCache, "activate_past_recording", lambda _: None)
    assert "fails the self-test" in refusal(folder)


def test_a_family_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", KINDS["voxtral"], 0)
    assert "'voxtral'" in refusal(folder, family="gemma4")


def test_another_type_goes_the_generic_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "model", KINDS["qwen2-audio"], 0)
    known = load(folder)
    monkeypatch.setattr(loading, "family_of", lambda _: Family())
    generic = load(folder)
    assert generic.processor.family.name == "generic"
    ours, theirs = (each.processor.prompt(sound(1, 0.7), "x") for each in (generic, known))
    assert ours.ids == theirs.ids
    assert_agree(Session(generic, ours, 9).logits((65, 66), 3), Session(known, theirs, 9).logits((65, 66), 3))
