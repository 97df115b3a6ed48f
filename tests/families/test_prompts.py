"""Prompts, ids and tensors, against those of transformers' own processors, for clips of many lengths."""

import base64
import io
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from specdec_cli.errors import AudioContentError, CheckpointError
from specdec_cli.models.processor import same_prompts
from specdec_cli.models.session import Session
from tests.families.running import families, model
from tests.families.standins import HAS_MISTRAL, published
from tests.support.checkpoints import assert_agree
from tests.support.kinds import KINDS
from tests.support.models import tiny_clip
from tests.tiers import named

SECONDS = (0.1, 0.33, 1.0, 2.99, 7.7, 15.01, 29.99, 30.0)
LONG = (30.01, 60.0)
TEXTS = ("a\n b\t<b>&amp; {{ x }} {% y %}", " ", "é🙂", "")


@pytest.mark.parametrize("family", named(KINDS, "qwen2-audio"))
def test_prompts_equal_those_of_the_published_processor(family):
    if family == "voxtral" and not HAS_MISTRAL:
        pytest.skip("mistral-common is not installed")
    of = model(family, 0)
    lengths = (*SECONDS, *(LONG if of.processor.window_s > 60 else ()))
    for seconds, text in [(seconds, "描述 this") for seconds in lengths] + [(0.5, text) for text in TEXTS]:
        systems = (None, "Be brief. 简短") if of.processor.family.takes_system and seconds < 1 else (None,)
        for system in systems:
            samples = tiny_clip(1, seconds)
            ours = of.processor.prompt(samples, text, system)
            expected = prompt_of(published(of.processor), samples, text, system)
            assert list(ours.ids) == expected["input_ids"][0].tolist(), (seconds, text)
            assert set(ours.audio) == {name for name in expected if "features" in name or "feature_" in name}
            for name, values in ours.audio.items():
                wanted = expected[name][..., : values.shape[-1]]  # ours may lack padding that is masked out
                assert values.shape == wanted.shape
                torch.testing.assert_close(values.float(), wanted.float(), rtol=1e-4, atol=1e-4)
                assert "mask" not in name or int(expected[name].sum()) == int(values.sum())


def prompt_of(processor: Any, samples: Any, instruction: str, system: str | None = None) -> Any:
    """The published way from a conversation to tensors."""
    granite = type(processor).__name__ == "GraniteSpeechProcessor"
    audio: dict[str, Any] = {"type": "audio", "audio": samples}
    if type(processor).__name__ == "VoxtralProcessor":
        with io.BytesIO() as file:
            soundfile.write(file, samples, 16000, format="WAV", subtype="FLOAT")
            audio = {"type": "audio", "base64": base64.b64encode(file.getvalue()).decode()}
    text = [{"type": "text", "text": instruction}] if instruction else []
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": f"<|audio|>{instruction}" if granite else [audio, *text]}
    ]
    if system is not None:
        turns.insert(0, {"role": "system", "content": system if granite else [{"type": "text", "text": system}]})
    if granite:  # as its model card does
        template = processor.chat_template
        said = processor.tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, chat_template=template
        )
        return processor(said, torch.from_numpy(samples)[None], return_tensors="pt")
    return processor.apply_chat_template(
        turns, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )


@pytest.mark.parametrize("family", ["gemma4", "gemma4-unified"])
def test_token_types_that_the_processor_adds_change_nothing_for_audio(family):
    of, samples = model(family, 0), tiny_clip(2, 1.3)
    made = of.processor.prompt(samples, "x")
    whole = prompt_of(published(of.processor), samples, "x")
    assert int(whole["mm_token_type_ids"].max()) > 0
    with torch.no_grad():
        theirs = of.module(**whole, use_cache=False).logits[0, -2:]
    assert_agree(Session(of, made, 9).logits(()), theirs[-1:, : of.processor.vocab_size])


def test_a_system_prompt_is_refused_where_the_family_takes_none():
    with pytest.raises(CheckpointError, match="takes no system prompt"):
        model("voxtral", 0).processor.prompt(tiny_clip(3), "x", "Be brief.")


@families
def test_processors_of_equal_files_are_known_as_equal_and_clips_beyond_the_window_refused(family):
    one, other = model(family, 0).processor, model(family, 1).processor
    assert one.fingerprints() == other.fingerprints()
    assert same_prompts(one, other)
    assert not same_prompts(one, model("granite-speech" if family == "voxtral" else "voxtral", 0).processor)
    with pytest.raises(AudioContentError, match="takes mono audio of at most"):
        one.prompt(np.zeros(round((one.window_s + 0.01) * 16000), np.float32), "x")
