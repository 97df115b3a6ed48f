"""On a GPU, quantisation is other packages' work: they get the parts to leave alone, and are named where they miss."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import nn
from transformers.quantizers.quantizers_utils import should_convert_module

from specdec_cli.models.families import family_named
from specdec_cli.models.loading import kept_whole, outline, quantization_config
from tests.families.checkpoints import KINDS


def made(name: str | None, device: str, family: str) -> Any:
    kind = KINDS[family]
    config = kind.config(kind.tokenizer().get_vocab())
    return quantization_config(name, torch.device(device), family_named(family), config)


@pytest.mark.parametrize("family", KINDS)
def test_on_a_gpu_decoder_and_output_layer_are_quantised_and_nothing_else(family: str) -> None:
    config = KINDS[family].config(KINDS[family].tokenizer().get_vocab())
    skipped = kept_whole(family_named(family), config)
    module = outline(family_named(family), config)
    linear = {name for name, part in module.named_modules() if type(part) is nn.Linear}
    quantised = {name for name in linear if should_convert_module(name, skipped)}  # as both packages' quantisers ask
    tied = module.get_output_embeddings().weight is module.get_input_embeddings().weight
    decoder = {id(part) for part in module.get_decoder().modules()}
    expected = {name for name in linear if id(module.get_submodule(name)) in decoder}
    assert quantised == expected | (set() if tied else {"lm_head"})
    assert expected
    assert linear - quantised, "the audio encoder has linear layers"


def test_bitsandbytes_is_told_what_to_leave_alone() -> None:
    told = made("int4", "cuda", "qwen2.5-omni")
    assert told.bnb_4bit_quant_type == "nf4"
    assert "lm_head" not in told.llm_int8_skip_modules


@pytest.mark.skipif(find_spec("torchao") is not None, reason="torchao is installed")
def test_a_missing_package_is_named() -> None:
    with pytest.raises(ImportError, match="torchao"):
        made("int8", "cuda", "qwen2-audio")
