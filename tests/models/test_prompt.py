"""A prompt is the chat template's own ids, with one placeholder per audio token."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli.errors import CheckpointError
from specdec_cli.models.family import AudioFeatures
from specdec_cli.models.qwen_omni import AudioProcessor, QwenOmniThinker
from tests.models.hub_numbers import audio_model
from tests.tiny import TEMPLATE, tiny_clip, tiny_model, tiny_processor

AUDIO = "<|AUDIO|>"


def _by_hand(model: QwenOmniThinker, instruction: str, features: AudioFeatures, system: str | None) -> tuple[int, ...]:
    """The ids of the text in which the placeholder is written once per audio token, as transformers' processor does."""
    turns: list[dict[str, Any]] = []
    if system is not None:
        turns.append({"role": "system", "content": [{"type": "text", "text": system}]})
    parts = [{"type": "audio", "audio": "x.wav"}, {"type": "text", "text": instruction}]
    turns.append({"role": "user", "content": parts})
    text: str = model.processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    count = int(model.encode(features).shape[0])
    ids: list[int] = model.tokenizer(text.replace(AUDIO, AUDIO * count), add_special_tokens=False).input_ids
    return tuple(ids)


@pytest.mark.parametrize(
    "instruction", ["say how", "描述这个人的声音。", "a\n b\t<b>&amp; {{ x }} {% y %}", " ", "é🙂"]
)
@pytest.mark.parametrize("system", [None, "", "You listen.", "你是声音专家。"])
@pytest.mark.parametrize("seconds", [0.1, 1.03])
def test_a_prompt_is_the_templates(instruction: str, system: str | None, seconds: float) -> None:
    model = tiny_model(3)
    features = model.features(tiny_clip(0, seconds))
    prompt = model.build_prompt(instruction, features, system)
    assert prompt.ids == _by_hand(model, instruction, features, system)
    assert prompt.features is features
    assert prompt.ids.count(model.tokenizer.convert_tokens_to_ids(AUDIO)) == model.audio_tokens(features.frames)


def test_a_prompt_at_the_published_numbers() -> None:
    model = audio_model(128, 300, 100)
    features = model.features(tiny_clip(0, 9.7))
    assert model.build_prompt("how?", features).ids == _by_hand(model, "how?", features, None)


def test_a_prompt_reads_as_the_template_says() -> None:
    model = tiny_model(3)
    features = model.features(tiny_clip(0, 0.16))
    assert model.tokenizer.decode(model.build_prompt("how?", features, "Listen.").ids) == (
        "<|im_start|>system\nListen.<|im_end|>\n<|im_start|>user\n<|audio_bos|>"
        + AUDIO * 4
        + "<|audio_eos|>how?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_templates_own_system_line_is_kept_without_ours() -> None:
    model = tiny_model(3)
    text = model.tokenizer.decode(model.build_prompt("how?", model.features(tiny_clip(0))).ids)
    assert text.startswith("<|im_start|>system\nHi.<|im_end|>\n<|im_start|>user\n")


@pytest.mark.parametrize(("template", "count"), [(TEMPLATE.replace(AUDIO, ""), 0), (TEMPLATE * 2, 2)])
def test_a_template_without_one_place_for_the_audio_is_refused(template: str, count: int) -> None:
    base = tiny_model(3)
    source = tiny_processor()
    processor = AudioProcessor(source.feature_extractor, source.tokenizer, chat_template=template)
    model = QwenOmniThinker("edge", base.module, processor)
    with pytest.raises(CheckpointError, match=f"template of edge puts {count} audio placeholders") as error:
        model.build_prompt("how?", model.features(tiny_clip(0)))
    assert "template" in str(error.value.hint)


@pytest.mark.parametrize("where", ["instruction", "system"])
def test_a_placeholder_in_the_users_words_is_refused(where: str) -> None:
    model = tiny_model(3)
    words: dict[str, str] = {"instruction": "how?", where: f"like {AUDIO}?"}
    with pytest.raises(CheckpointError, match="puts 2 audio placeholders"):
        model.build_prompt(features=model.features(tiny_clip(0)), **words)  # type: ignore[arg-type]
