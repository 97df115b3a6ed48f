"""A prompt is the chat template's own ids, with one placeholder per audio token."""

from __future__ import annotations

import pytest

from specdec_cli.errors import CheckpointError
from tests.models.test_features import audio_model
from tests.tiny import tiny_clip, tiny_model

AUDIO = "<|AUDIO|>"


def test_a_prompt_reads_as_the_template_says() -> None:
    processor = tiny_model(3).processor
    assert processor.tokenizer.decode(processor.prompt(tiny_clip(0, 0.16), "how?", "Listen.").ids) == (
        "<|im_start|>system\nListen.<|im_end|>\n<|im_start|>user\n<|audio_bos|>"
        + AUDIO * 4
        + "<|audio_eos|>how?<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("where", ["instruction", "system"])
def test_a_placeholder_in_the_users_words_is_refused(where: str) -> None:
    words: dict[str, str] = {"instruction": "how?", where: f"like {AUDIO}?"}
    with pytest.raises(CheckpointError, match="puts 2 audio placeholders"):
        tiny_model(3).processor.prompt(tiny_clip(0), **words)


def test_pieces_and_texts() -> None:
    processor = tiny_model(3).processor
    ids = processor.tokenizer("é好", add_special_tokens=False).input_ids
    assert processor.text([*ids, *processor.eos_ids]) == "é好"
    assert processor.text(ids[:1]) == "\ufffd"
    assert processor.piece(processor.eos_ids[0]) == "<|im_end|>"


def test_fingerprints_tell_tokenizers_and_front_ends_apart() -> None:
    plain, merged = tiny_model(3).processor.fingerprints(), tiny_model(3, merges=3).processor.fingerprints()
    wide = audio_model(128, 300, 100).processor.fingerprints()
    assert plain == tiny_model(4, vocab_size=320).processor.fingerprints()
    assert plain["tokenizer"] != merged["tokenizer"]
    assert plain["tokenizer"] == wide["tokenizer"]
    assert plain["prompts"] != wide["prompts"]
