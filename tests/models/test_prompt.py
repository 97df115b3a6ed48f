"""A prompt is the chat template's own ids, with one placeholder per audio token."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from tests.models.hub_numbers import audio_model
from tests.tiny import tiny_clip, tiny_model

AUDIO = "<|AUDIO|>"


def _audio_tokens(model: AudioLM, clip: npt.NDArray[np.float32]) -> int:
    """What the audio tower gives."""
    audio = model.processor.prompt(clip, "x").audio
    return int(model.module.get_audio_features(**audio).last_hidden_state.shape[0])


def _by_hand(model: AudioLM, instruction: str, clip: npt.NDArray[np.float32], system: str | None) -> tuple[int, ...]:
    """The ids of the text in which the placeholder is written once per audio token, as transformers' processor does."""
    turns: list[dict[str, Any]] = []
    if system is not None:
        turns.append({"role": "system", "content": [{"type": "text", "text": system}]})
    parts = [{"type": "audio", "audio": "x.wav"}, {"type": "text", "text": instruction}]
    turns.append({"role": "user", "content": parts})
    text: str = model.processor.parts.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    count = _audio_tokens(model, clip)
    ids: list[int] = model.processor.tokenizer(text.replace(AUDIO, AUDIO * count), add_special_tokens=False).input_ids
    return tuple(ids)


@pytest.mark.parametrize(
    "instruction", ["say how", "描述这个人的声音。", "a\n b\t<b>&amp; {{ x }} {% y %}", " ", "é🙂"]
)
@pytest.mark.parametrize("system", [None, "", "You listen.", "你是声音专家。"])
@pytest.mark.parametrize("seconds", [0.1, 1.03])
def test_a_prompt_is_the_templates(instruction: str, system: str | None, seconds: float) -> None:
    model, clip = tiny_model(3), tiny_clip(0, seconds)
    prompt = model.processor.prompt(clip, instruction, system)
    assert prompt.ids == _by_hand(model, instruction, clip, system)
    assert prompt.waveform is clip
    assert prompt.ids.count(model.processor.placeholder_id) == _audio_tokens(model, clip)


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
