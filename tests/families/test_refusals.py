"""Checkpoints that cannot be run are refused in words when they are loaded."""

from dataclasses import replace
from typing import Any

import pytest
import transformers
from transformers import DynamicCache

from specdec_cli.models import families
from tests.families.checkpoints import KINDS, TEXT, write
from tests.models.checkpoints import assert_refused, load


def test_a_recurrent_model_is_refused(tmp_path):
    recurrent = {
        "model_type": "bamba", **TEXT, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8,
        "mamba_expand": 2, "mamba_d_state": 8,
    }  # fmt: skip

    def config(ids: dict[str, int]) -> Any:
        made = KINDS["qwen2-audio"].config(ids)
        text = transformers.AutoConfig.for_model(**recurrent)
        return transformers.Qwen2AudioConfig(
            audio_config=made.audio_config.to_dict(), text_config=text, audio_token_index=ids["<|AUDIO|>"]
        )

    folder = write(tmp_path / "hybrid", replace(KINDS["qwen2-audio"], config=config), 0)
    assert_refused(folder, "keeps a recurrent state")


def test_a_model_that_reasons_is_refused(tmp_path):
    kind = KINDS["qwen3-omni"]
    kind = replace(kind, template=kind.template.replace("assistant\n{%", "assistant\n<think>\n{%"))
    assert_refused(write(tmp_path / "omni", kind, 0), "reasons before it answers")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    folder = write(tmp_path / "model", KINDS["voxtral"], 0)
    monkeypatch.setattr(families.FAMILIES["voxtral"], "needs", ("no-such-package",))
    assert_refused(folder, "needs the package no-such-package, which is not installed", "pip install no-such-package")


@pytest.mark.ci
def test_a_sliding_cache_that_loses_its_past_is_refused(tmp_path, monkeypatch):
    def config(ids: dict[str, int]) -> Any:
        made = KINDS["gemma4"].config(ids)
        made.text_config.sliding_window = 200  # beyond the prompt of the self-test and a few tokens
        return made

    folder = write(tmp_path / "sliding", replace(KINDS["gemma4"], config=config), 0)
    assert load(folder).self_test == "passed"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(DynamicCache, "activate_past_recording", lambda _: None)
    assert_refused(folder, "fails the self-test")
