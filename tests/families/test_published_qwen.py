"""Qwen-Omni models on the published tokenizers: prompts, split characters, padded vocabularies, and unlike pairs.

Tables, merges and special tokens are those of the published files; the weights are tiny and random.
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers as tf

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import require_lossless, shared_vocab_size
from tests.families.running import prompt
from tests.laws.cases import Case, drawn_settings
from tests.laws.checks import cloud_law
from tests.support.checkpoints import load as load_folder
from tests.support.kinds import KINDS, write
from tests.support.models import near_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("qwen"),  # tokenizers of 150,000 pieces are made once
]

Load = Callable[..., AudioLM]
FOLDERS = {"qwen2.5-omni": "Qwen2.5-Omni-7B", "qwen3-omni": "Qwen3-Omni-30B-A3B-Instruct"}
SHARED = 151_646
CHINESE = "一位女性用低沉的嗓音，语速缓慢，带着悲伤。龘靐齉爩，𠮷野家；😀 3.5 秒 ok"


def published_tokenizer(root: Path, folder: Path, family: str) -> Any:
    """That of a family; Qwen2.5-Omni has Qwen3-Omni's words, and its own special tokens."""
    words = root / FOLDERS["qwen3-omni"]
    for source in (words / "vocab.json", words / "merges.txt", root / FOLDERS[family] / "tokenizer_config.json"):
        shutil.copy(source, folder)
    return tf.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def load(tmp_path_factory, data) -> Load:
    """Loads tiny models of published layouts, by family, rows of the output layer and noise."""
    root = data / "published" / "configs"
    if not (root / FOLDERS["qwen3-omni"] / "merges.txt").is_file():
        pytest.skip("no published tokenizers beside the data")
    tokenizers = {family: published_tokenizer(root, tmp_path_factory.mktemp(family), family) for family in FOLDERS}

    @cache
    def run(family: str, rows: int, noise: float = 0.0) -> AudioLM:
        if noise:
            return near_model(run(family, rows), 0, noise)
        tiny = KINDS[family]

        def sized(ids: dict[str, int]) -> Any:
            made = tiny.config(ids)
            made.text_config.vocab_size = rows
            return made

        kind = replace(tiny, config=sized, extractor=tiny.extractor | {"chunk_length": 300})
        return load_folder(write(tmp_path_factory.mktemp(family), kind, 0, tokenizer=tokenizers[family]))

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
    require_lossless(third.processor, SHARED)


def test_characters_split_over_several_tokens_come_back_whole(load):
    processor = load("qwen2.5-omni", 151_936).processor
    ids = processor.encode(CHINESE)
    assert max(ids) < SHARED - 3
    assert processor.text(ids) == CHINESE
    assert sum("\ufffd" in processor.token_text(id_) for id_ in ids) >= 4
    for at in range(len(ids)):  # a text that stops within a character loses that character alone
        assert CHINESE.startswith(processor.text(ids[: at + 1]).rstrip("\ufffd"))


@pytest.mark.parametrize("cloud", FOLDERS)
def test_a_pair_of_published_layouts_is_lossless(law, load, cloud):
    target = load(cloud, 152_064)

    def case(number: int) -> Case:
        edge = load("qwen2.5-omni", 151_936, (0.0, 0.05, 0.3)[number % 3])
        drawn = drawn_settings(random.Random(number), mode="lossless", loop_period=0, max_new_tokens=12)
        return Case(number, Pair.of(edge, target), prompt(edge, number), prompt(target, number), drawn)

    law(f"qwen2.5-omni before {cloud}", map(case, range(6)), cloud_law)
