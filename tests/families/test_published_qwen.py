"""Qwen-Omni models on the published tokenizer: prompts, split characters, padded vocabularies, and unlike pairs.

The merges are those that the PyPI package dashscope carries; text models and special tokens have their published ids;
the weights are tiny and random.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import transformers as tf
from tokenizers import normalizers
from transformers.convert_slow_tokenizer import TikTokenConverter

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import shared_vocab_size
from tests.families.checkpoints import KINDS, write
from tests.families.running import prompt
from tests.laws.cases import Case, drawn_settings
from tests.laws.checks import cloud_law
from tests.models.checkpoints import load as load_folder

_DASHSCOPE = find_spec("dashscope")  # which is not imported
pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("qwen"),  # tokenizers of 150,000 pieces are made once
    pytest.mark.skipif(_DASHSCOPE is None, reason="dashscope, which carries Qwen's merges, is missing"),
]

Load = Callable[..., AudioLM]
MERGED = 151_643
SHARED = MERGED + 3
COMMON = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FILL_IN = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
OMNI_25 = (
    *COMMON,
    *("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_bos|>", "<|vision_eos|>", "<|vision_pad|>", "<|IMAGE|>", "<|VIDEO|>", "<tool_call>", "</tool_call>"),
    *FILL_IN,
)
"""Special tokens of Qwen2.5-Omni, ids 151,643 to 151,664."""
OMNI_3 = (
    *COMMON,
    *("<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>"),
    *("</tool_call>", *FILL_IN),
    *("<tool_response>", "</tool_response>", "<think>", "</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>"),
    *("<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
"""Special tokens of Qwen3-Omni, ids 151,643 to 151,675."""
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHINESE = "一位女性用低沉的嗓音，语速缓慢，带着悲伤。龘靐齉爩，𠮷野家；😀 3.5 秒 ok"


def merges_file() -> str:
    assert _DASHSCOPE.origin is not None
    return str(Path(_DASHSCOPE.origin).parent / "resources" / "qwen.tiktoken")


def published_tokenizer(specials: Sequence[str]) -> tf.PreTrainedTokenizerFast:
    """The byte-level BPE of the published tokenizer.json, with the special tokens of one model."""
    backend = TikTokenConverter(merges_file(), WORDS, extra_special_tokens=specials).converted()
    backend.normalizer = normalizers.NFC()
    audio = "<|AUDIO|>" if "<|AUDIO|>" in specials else "<|audio_pad|>"
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", audio_token=audio
    )


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> Load:
    """Loads tiny models of published layouts, by family, rows of the output layer and noise."""
    tokenizers = {"qwen2.5-omni": published_tokenizer(OMNI_25), "qwen3-omni": published_tokenizer(OMNI_3)}

    @cache
    def run(family: str, rows: int, noise: float = 0.0) -> AudioLM:
        tiny = KINDS[family]

        def sized(ids: dict[str, int]) -> Any:
            made = tiny.config(ids)
            made.text_config.vocab_size = rows
            return made

        kind = replace(tiny, config=sized, extractor=tiny.extractor | {"chunk_length": 300})
        return load_folder(write(tmp_path_factory.mktemp(family), kind, 0, noise, tokenizer=tokenizers[family]))

    return run


def test_special_tokens_and_padding_are_where_the_published_files_have_them(load):
    small, large, third = load("qwen2.5-omni", 151_936), load("qwen2.5-omni", 152_064), load("qwen3-omni", 152_064)
    ids = {name: small.processor.tokenizer.convert_tokens_to_ids(name) for name in ("<|AUDIO|>", "<|im_end|>")}
    assert ids == {"<|AUDIO|>": 151_646, "<|im_end|>": 151_645}
    assert third.processor.placeholder_id == 151_675
    assert [each.processor.logits_size for each in (small, large, third)] == [151_936, 152_064, 152_064]
    assert [each.processor.vocab_size for each in (small, large, third)] == [151_665, 151_665, 151_676]
    assert shared_vocab_size(small.processor, large.processor) == 151_665
    assert shared_vocab_size(small.processor, third.processor) == SHARED


def test_characters_split_over_several_tokens_come_back_whole(load):
    processor = load("qwen2.5-omni", 151_936).processor
    ids = processor.encode(CHINESE)
    assert max(ids) < MERGED
    assert processor.text(ids) == CHINESE
    assert sum("\ufffd" in processor.token_text(id_) for id_ in ids) >= 4
    for at in range(len(ids)):  # a text that stops within a character loses that character alone
        assert CHINESE.startswith(processor.text(ids[: at + 1]).rstrip("\ufffd"))


@pytest.mark.parametrize("cloud", ["qwen2.5-omni", "qwen3-omni"])
def test_a_pair_of_published_layouts_is_lossless(law, load, cloud):
    target = load(cloud, 152_064)

    def case(number: int) -> Case:
        edge = load("qwen2.5-omni", 151_936, (0.0, 0.05, 0.3)[number % 3])
        drawn = drawn_settings(random.Random(number), mode="lossless", loop_period=0, max_new_tokens=12)
        return Case(number, Pair.of(edge, target), prompt(edge, number), prompt(target, number), *drawn)

    law(f"qwen2.5-omni before {cloud}", map(case, range(8)), cloud_law)
