"""The pair's shared tokenizer: byte-level BPE over captions and prompts, with Qwen's special tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specdec_cli.prompts import PROMPTS
from training.captions import TEMPLATES, WORDS

SYSTEM: Final = "You describe voices."
"""System text of the chat template when the conversation has none of its own."""

SPECIAL_TOKENS: Final = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|AUDIO|>",
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<|IMAGE|>",
    "<|VIDEO|>",
    "<|vision_bos|>",
    "<|vision_eos|>",
    "<|vision_pad|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
)
VOCABULARY_SIZE: Final = 720
LONGEST_TOKEN: Final = 12
"""Bytes: long enough that every controlled word is one token, too short for whole clauses."""

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n" + SYSTEM + "<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'audio' or 'audio' in part or 'audio_url' in part %}<|audio_bos|><|AUDIO|><|audio_eos|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_QWEN_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


_CONNECTING_WORDS: Final = [
    "说话人",
    "听起来",
    "最可能",
    "语速",
    "音调",
    "起伏",
    "音量",
    "停顿",
    "音色",
    "情绪",
    "是",
    "的",
]


def _chinese_words() -> list[str]:
    """Words of the Chinese captions; each becomes one token, so no token ends inside a character or spans two words."""
    controlled = {word for attribute in WORDS["zh"].values() for word in attribute.values()}
    return sorted(controlled) + _CONNECTING_WORDS


def _texts() -> Iterator[str]:
    """Every prompt, the chat scaffold, and captions that hold every controlled word often enough to become a token."""
    scaffold = f"system\n{SYSTEM}\nuser\nassistant\n"
    for _ in range(20):
        yield scaffold
        yield from PROMPTS.values()
    for language in WORDS:
        attributes = WORDS[language]
        widest = max(len(words) for words in attributes.values())
        for (template_language, _), template in TEMPLATES.items():
            if template_language != language:
                continue
            for turn in itertools.chain.from_iterable(itertools.repeat(range(widest), 6)):
                words = {name: list(by_class.values()) for name, by_class in attributes.items()}
                yield template.format(**{name: found[turn % len(found)] for name, found in words.items()})


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer; deterministic."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(_chinese_words())), "isolated"),
            pre_tokenizers.Split(Regex(_QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LONGEST_TOKEN,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[token for token in SPECIAL_TOKENS if token not in ("<|im_end|>", "<|endoftext|>")],
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
