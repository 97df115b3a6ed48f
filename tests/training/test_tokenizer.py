"""The tokenizer keeps Qwen's special tokens, spells any text, and makes every controlled word one token."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS
from training.captions import WORDS
from training.dialogue import Dialogue
from training.labels import CLASSES
from training.tokenizer import SPECIAL_TOKENS, SYSTEM, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer()


def test_training_is_deterministic(tokenizer: PreTrainedTokenizerFast) -> None:
    assert train_tokenizer().get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("text", ["说话人是女声。", "naïve café — 你好，世界 42!\n", *PROMPTS.values()])
def test_any_text_survives(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_special_tokens_are_single(tokenizer: PreTrainedTokenizerFast) -> None:
    for token in SPECIAL_TOKENS:
        assert len(tokenizer(token)["input_ids"]) == 1
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.pad_token == "<|endoftext|>"


def test_every_controlled_word_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    dialogue = Dialogue(tokenizer)
    for language, attributes in WORDS.items():
        for name, words in attributes.items():
            assert len(dialogue.word_ids(name, words, language == "en")) == len(words)


def test_prompt_is_what_the_chat_template_renders(tokenizer: PreTrainedTokenizerFast) -> None:
    content = [{"type": "audio", "audio": ""}, {"type": "text", "text": PROMPTS["zh", "default"]}]
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    assert rendered.startswith(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n<|audio_bos|><|AUDIO|>")
    assert tokenizer(rendered)["input_ids"] == Dialogue(tokenizer).prompt("zh", "default", audio_tokens=1)


def test_answer_knows_which_token_holds_which_attribute(tokenizer: PreTrainedTokenizerFast) -> None:
    classes = {name: names[0] for name, names in CLASSES.items()}
    answer = Dialogue(tokenizer).answer(classes, "en", "detailed")
    held = {name: tokenizer.decode([token]) for token, name in zip(answer.ids, answer.attributes, strict=True) if name}
    assert held == {name: " " + words[classes[name]] for name, words in WORDS["en"].items()}
    assert answer.ids[-1] == tokenizer.eos_token_id
