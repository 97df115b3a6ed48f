"""Values that contradict each other, and those that only look as if they did."""

import pytest

from specdec_cli.config import load_config, shipped_configs

CLASHES: list[tuple[dict[str, object], str, str]] = [
    ({"cloud": None, "decoding__mode": "hybrid"}, "decoding.mode", "cloud"),
    ({"edge": None, "decoding__mode": "edge"}, "decoding.mode", "edge"),
    ({"decoding__mode": "lossless", "decoding__acceptance": "rank"}, "decoding.mode", "decoding.acceptance"),
    ({"decoding__mode": "lossless", "gate__name": "entropy"}, "gate.name", "decoding.mode"),
    ({"decoding__acceptance": "sampling"}, "decoding.acceptance", "decoding.temperature"),
    ({"decoding__acceptance": "greedy", "decoding__temperature": 0.5}, "decoding.acceptance", "decoding.temperature"),
    ({"decoding__top_p": 0.9}, "decoding.top_p", "decoding.temperature"),
    ({"decoding__mode": "edge", "decoding__acceptance": "rank:3"}, "decoding.acceptance", "decoding.mode"),
    ({"gate__name": "never", "gate__threshold": 1.0}, "gate.threshold", "gate.name"),
    ({"gate__threshold": -0.1}, "gate.threshold", "gate.name"),
    ({"gate__name": "logprob", "gate__threshold": 0.1}, "gate.threshold", "gate.name"),
    ({"gate__name": "random", "gate__stop_drafting": True}, "gate.stop_drafting", "gate.name"),
    ({"decoding__k": "whole", "gate__stop_drafting": True}, "gate.stop_drafting", "decoding.k"),
    ({"audio__start_s": 5, "audio__end_s": "0:04"}, "audio.end_s", "audio.start_s"),
]


@pytest.mark.parametrize(("flags", "first", "second"), CLASHES)
def test_both_settings_are_named(refusal, flags, first, second):
    message = refusal(**flags).message
    assert message.startswith(f"{first} is ")
    assert f"but {second} is " in message


def test_the_model_that_a_mode_does_not_use_may_be_named():
    for mode, other in (("edge", "cloud"), ("cloud", "edge")):
        config = load_config("mini", flags={"decoding.mode": mode, f"{other}.dtype": "float16"}, environ={}).config
        assert getattr(config, other).dtype == "float16"


@pytest.mark.parametrize(
    "text",
    [
        "decoding: {mode: edge, acceptance: sampling}\ngate: {name: entropy, threshold: 1.0}\n",
        "decoding: {mode: lossless}\ngate: {name: entropy}\n",
        "gate: {name: never, threshold: 5.0}\n",
        "prompt: {instruction: Hello}\n",
    ],
)
def test_what_a_file_says_beyond_its_mode_is_fine(load, text):
    load(text)


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
def test_every_mode_works_on_the_shipped_configs(mode):
    consent = {"remote.allow_audio_upload": True}
    for name, path in shipped_configs().items():
        resolved = load_config(name, flags={"decoding.mode": mode, **consent}, environ={})
        assert (resolved.path, resolved.config.decoding.mode) == (path, mode)


def test_instructions_and_the_end_of_captions_go_by_the_checkpoint_that_writes(load):
    pair = {"edge__model": "package:mini/edge", "cloud__model": "package:mini/cloud"}
    mini, other = load(**pair).config, load(prompt__language="en").config
    assert (mini.closes, other.closes) == (False, True)
    assert mini.instruction("en") == "Describe the speaker's voice and emotion in English."
    for rule in ("one sentence", "two or three vocal cues", "English only", "third person", "no questions, no offers"):
        assert rule in other.instruction()
    assert "不要提问" in other.instruction("zh")
    assert "two or three sentences" in load(prompt__instruction="detailed").config.instruction("en")
    assert load(prompt__instruction="Hello").config.instruction() == "Hello"
    assert load(decoding__closing="off").config.closes is False
    assert load(**pair, decoding__closing="on").config.closes
    assert load(edge__model="package:mini/edge").config.closes is False
    assert load(edge__model="package:mini/edge", decoding__mode="cloud").config.closes


def test_a_captioner_takes_no_instruction(load):
    config = load(edge__model="owner/Omni-Captioner").config
    assert (config.edge.own_instruction, load().config.edge.own_instruction) == ("", None)
    assert load(edge__model="owner/Omni-Captioner", edge__instruction="How?").config.edge.own_instruction == "How?"
