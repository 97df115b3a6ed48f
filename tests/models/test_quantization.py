"""On a GPU, quantisation is bitsandbytes' work: it gets the parts to leave alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.quantizers.quantizers_utils import should_convert_module

from specdec_cli.models.families import family_named
from specdec_cli.models.loading import kept_whole, outline, quantization_config
from tests.families.checkpoints import KINDS


@pytest.mark.parametrize("family", KINDS)
def test_on_a_gpu_decoder_and_output_layer_are_quantised_and_nothing_else(family: str) -> None:
    config = KINDS[family].config(KINDS[family].tokenizer().get_vocab())
    skipped = kept_whole(family_named(family), config)
    module = outline(family_named(family), config)
    linear = {name for name, part in module.named_modules() if type(part) is nn.Linear}
    quantised = {name for name in linear if should_convert_module(name, skipped)}  # as its quantiser asks
    tied = module.get_output_embeddings().weight is module.get_input_embeddings().weight
    decoder = {id(part) for part in module.get_decoder().modules()}
    expected = {name for name in linear if id(module.get_submodule(name)) in decoder}
    assert quantised == expected | (set() if tied else {"lm_head"})
    assert expected
    assert linear - quantised, "the audio encoder has linear layers"


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_bitsandbytes_is_told_what_to_leave_alone(name: str) -> None:
    kind = KINDS["qwen2.5-omni"]
    config = kind.config(kind.tokenizer().get_vocab())
    told = quantization_config(name, torch.device("cuda"), family_named("qwen2.5-omni"), config)
    assert (told.load_in_8bit, told.load_in_4bit) == (name == "int8", name == "int4")
    assert told.bnb_4bit_quant_type == "nf4"
    assert "lm_head" not in told.llm_int8_skip_modules
