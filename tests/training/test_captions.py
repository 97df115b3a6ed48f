"""Captions say every class of their style with its controlled word, and can be read back."""

from __future__ import annotations

import itertools

import pytest

from specdec_cli.prompts import PROMPTS, Language, Style
from training.captions import TEMPLATES, WORDS, attributes_of, compose, is_well_formed, parse
from training.labels import ATTRIBUTES, CLASSES

KINDS = list(TEMPLATES)


def _all_classes(attributes: tuple[str, ...]) -> list[dict[str, str]]:
    widest = max(len(CLASSES[name]) for name in attributes)
    return [
        {name: CLASSES[name][(turn + shift) % len(CLASSES[name])] for name in attributes}
        for turn, shift in itertools.product(range(widest), range(2))
    ]


@pytest.mark.parametrize(("language", "style"), KINDS)
def test_round_trip(language: Language, style: Style) -> None:
    for classes in _all_classes(attributes_of(language, style)):
        caption = compose(classes, language, style)
        assert parse(caption.text, language) == classes
        assert is_well_formed(caption.text, language, style)
        for name, (start, stop) in caption.spans.items():
            assert caption.text[start:stop] == WORDS[language][name][classes[name]]


def test_every_prompt_has_a_template_and_every_class_a_word() -> None:
    assert set(TEMPLATES) == set(PROMPTS)
    for attributes in WORDS.values():
        assert {name: tuple(attributes[name]) for name in ATTRIBUTES} == CLASSES


def test_default_caption_is_the_documented_one() -> None:
    classes = {
        "voice": "female",
        "rate": "fast",
        "pitch": "high",
        "range": "lively",
        "volume": "loud",
        "pauses": "few",
        "emotion": "angry",
    }
    zh, en = compose(classes, "zh", "default").text, compose(classes, "en", "default").text
    assert zh == "说话人是女声，语速较快，音调偏高，起伏明显，音量较大，停顿较少。听起来情绪愤怒。"
    assert en == (
        "The speaker has a female voice, speaking at a fast pace, with a high pitch, lively intonation, "
        "a loud volume and few pauses. The emotion sounds angry."
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "说话人是女声，语速较快。",
        "A male voice at a slow pace.",
        "说话人是男声，语速较快，音调偏高，起伏明显，音量较大，停顿较少。",
    ],
)
def test_a_broken_caption_is_not_well_formed(text: str) -> None:
    assert not any(is_well_formed(text, language, style) for language, style in KINDS)


def test_female_is_not_read_as_male() -> None:
    assert parse("A female voice at a slow pace", "en")["voice"] == "female"
