"""Qwen-Omni models on the published tokenizer: prompts, split characters, padded vocabularies, and unlike pairs.

The text models, merges and special tokens have their published ids; the weights are tiny and random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from specdec_cli.config import ModelConfig
from specdec_cli.decoding.assemble import Pair
from specdec_cli.errors import TokenizerMismatchError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from specdec_cli.models.processor import shared_vocab_size
from tests.families.checkpoints import KINDS, write
from tests.families.equality import Tally, assert_law
from tests.families.published import published
from tests.families.qwen_tokenizer import (
    MERGED,
    OMNI_3,
    OMNI_25,
    WORDS,
    merged_ranks,
    merges_file,
    published_tokenizer,
)
from tests.families.running import Case, config, model, prompt, sound

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("qwen"),  # tokenizers of 150,000 pieces are made once
    pytest.mark.skipif(merges_file() is None, reason="dashscope, which carries Qwen's merges, is missing"),
]

Load = Callable[..., AudioLM]
SHARED = MERGED + 3
CHINESE = "一位女性用低沉的嗓音，语速缓慢，带着悲伤。龘靐齉爩，𠮷野家；😀 3.5 秒 ok"


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads tiny models of published layouts, by family, rows of the output layer, seed and noise."""
    path = merges_file()
    assert path is not None
    tokenizers = {
        "qwen2.5-omni": published_tokenizer(path, OMNI_25),
        "qwen3-omni": published_tokenizer(path, OMNI_3),
    }

    @cache
    def run(family: str, rows: int, seed: int = 0, noise: float = 0.0) -> AudioLM:
        tiny = KINDS[family]

        def sized(ids: dict[str, int]) -> Any:
            made = tiny.config(ids)
            made.text_config.vocab_size = rows
            return made

        extractor = tiny.extractor | {"chunk_length": 300}
        folder = tmp_path_factory.mktemp(family)
        kind = replace(tiny, config=sized, extractor=extractor)
        write(folder, kind, seed, noise, tokenizer=tokenizers[family])
        return load_model(ModelConfig(model=str(folder), device="cpu"), offline=True)

    return run


def test_special_tokens_and_padding_are_where_the_published_files_have_them(load: Load) -> None:
    small, large, third = load("qwen2.5-omni", 151_936), load("qwen2.5-omni", 152_064), load("qwen3-omni", 152_064)
    ids = {name: small.processor.tokenizer.convert_tokens_to_ids(name) for name in ("<|AUDIO|>", "<|im_end|>")}
    assert ids == {"<|AUDIO|>": 151_646, "<|im_end|>": 151_645}
    assert third.processor.placeholder_id == 151_675
    assert [each.processor.rows for each in (small, large, third)] == [151_936, 152_064, 152_064]
    assert [each.processor.vocab_size for each in (small, large, third)] == [151_665, 151_665, 151_676]
    assert shared_vocab_size(small.processor, large.processor) == 151_665
    assert shared_vocab_size(small.processor, third.processor) == SHARED


def test_characters_split_over_several_tokens_come_back_whole(load: Load) -> None:
    processor = load("qwen2.5-omni", 151_936).processor
    ids = processor.tokenizer(CHINESE, add_special_tokens=False).input_ids
    assert max(ids) < MERGED
    assert processor.text(ids) == CHINESE
    pieces = [processor.piece(id_) for id_ in ids]
    split = [at for at, piece in enumerate(pieces) if "\ufffd" in piece]
    assert len(split) >= 4
    for at in range(len(ids)):  # a text that stops within a character loses that character alone
        assert CHINESE.startswith(processor.text(ids[: at + 1]).rstrip("\ufffd"))


def test_ids_are_those_of_tiktoken(load: Load) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    path = merges_file()
    assert path is not None
    encoding = tiktoken.Encoding("qwen", pat_str=WORDS, mergeable_ranks=merged_ranks(path), special_tokens={})
    tokenizer = load("qwen2.5-omni", 151_936).processor.tokenizer
    for text in (CHINESE, "A woman's voice, low-pitched:  slow (2.5 syllables/s)\n\n— sad."):
        assert tokenizer(text, add_special_tokens=False).input_ids == encoding.encode(text)


@pytest.mark.parametrize(("family", "rows"), [("qwen2.5-omni", 151_936), ("qwen3-omni", 152_064)])
def test_prompts_equal_those_of_the_published_processor(load: Load, family: str, rows: int) -> None:
    processor = load(family, rows).processor
    theirs = published(processor)
    for seconds in (0.1, 0.33, 1.0, 9.99, 30.0, 30.02, 60.0):
        samples = sound(4, seconds)
        ours = processor.prompt(samples, CHINESE)
        turns = [{"role": "user", "content": [{"type": "audio", "audio": samples}, {"type": "text", "text": CHINESE}]}]
        expected = theirs.apply_chat_template(
            turns, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        assert list(ours.ids) == expected["input_ids"][0].tolist()
        features = ours.audio["input_features"]
        torch.testing.assert_close(features, expected["input_features"][..., : features.shape[-1]])


@pytest.mark.parametrize("cloud", ["qwen2.5-omni", "qwen3-omni"])
def test_a_pair_of_published_layouts_is_lossless(load: Load, cloud: str) -> None:
    target = load(cloud, 152_064)
    tally = Tally(f"qwen2.5-omni before {cloud}")
    for number in range(8):
        edge = load("qwen2.5-omni", 151_936, 0, (0.0, 0.05, 0.3)[number % 3])
        pair = Pair.of(edge, target)
        penalty = (1.0, 1.3)[number % 2]
        settings = config(mode="lossless", k=1 + number % 6, max_new_tokens=12, repetition_penalty=penalty)
        case = Case(f"{number}", pair, settings, target, (prompt(edge, number), prompt(target, number)))
        text = case.run().token_ids
        assert max(text) < pair.vocab_size
        score = case.settings().score(target.module, case.prompt)
        assert_law(text, score, stop_ids=case.stop_ids, max_new_tokens=12)
        tally.add(case.name, text, case.generated())
    tally.close()


def test_a_pair_without_a_common_beginning_is_refused_with_both_names(load: Load) -> None:
    edge, cloud = load("qwen2.5-omni", 151_936), model("audio-flamingo-3", 0)
    with pytest.raises(TokenizerMismatchError) as caught:
        Pair.of(edge, cloud)
    assert edge.name in caught.value.message
    assert cloud.name in caught.value.message
    assert "different tokenizers" in caught.value.message


def test_the_captioner_reads_the_clip_alone(load: Load) -> None:
    processor = load("qwen3-omni", 152_064).processor
    ids = processor.prompt(sound(1, 1.0), "").ids
    text = processor.tokenizer.decode(ids)
    assert text.endswith("<|audio_end|><|im_end|>\n<|im_start|>assistant\n")
    assert "<|im_start|>user\n<|audio_start|>" in text
