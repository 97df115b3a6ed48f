"""Captions: from class names to text in both languages and three styles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language, Style
from training.labels import CLASSES

WORDS: Final[dict[Language, dict[str, dict[str, str]]]] = {
    "zh": {
        "voice": {"male": "男声", "female": "女声"},
        "rate": {"slow": "较慢", "moderate": "适中", "fast": "较快"},
        "pitch": {"low": "偏低", "medium": "适中", "high": "偏高"},
        "range": {"flat": "平稳", "lively": "明显"},
        "volume": {"soft": "较小", "normal": "适中", "loud": "较大"},
        "pauses": {"few": "较少", "many": "较多"},
        "timbre": {"mellow": "柔和", "balanced": "自然", "bright": "明亮"},
        "emotion": {
            "neutral": "中性",
            "happy": "高兴",
            "sad": "悲伤",
            "angry": "愤怒",
            "fearful": "害怕",
            "disgusted": "厌恶",
            "surprised": "惊讶",
        },
    },
    "en": {name: {class_: class_ for class_ in classes} for name, classes in CLASSES.items()},
}
"""The word that names each class. A caption holds one of them for each attribute that its style mentions."""


def fixed_words() -> dict[Language, dict[str, str]]:
    """Language -> attribute -> the words for its classes: `specdec_words` of a checkpoint's config.json."""
    return {
        language: {name: " ".join(words.values()) for name, words in attributes.items()}
        for language, attributes in WORDS.items()
    }


TEMPLATES: Final[dict[tuple[Language, Style], str]] = {
    ("zh", "default"): (
        "说话人是{voice}，语速{rate}，音调{pitch}，起伏{range}，音量{volume}，停顿{pauses}。听起来情绪{emotion}。"
    ),
    ("zh", "detailed"): (
        "说话人语速{rate}，停顿{pauses}，音量{volume}。音调{pitch}，起伏{range}，音色是{timbre}的{voice}。"
        "最可能的情绪是{emotion}。"
    ),
    ("zh", "concise"): "{voice}，语速{rate}，音调{pitch}，音量{volume}，情绪{emotion}。",
    ("en", "default"): (
        "The speaker has a {voice} voice, speaking at a {rate} pace, with a {pitch} pitch, {range} intonation, "
        "a {volume} volume and {pauses} pauses. The emotion sounds {emotion}."
    ),
    ("en", "detailed"): (
        "The speaker talks at a {rate} pace with {pauses} pauses and a {volume} volume. "
        "It is a {voice} voice of {timbre} timbre, with a {pitch} pitch and {range} intonation. "
        "The most likely emotion is {emotion}."
    ),
    (
        "en",
        "concise",
    ): "A {voice} voice at a {rate} pace, with a {pitch} pitch and a {volume} volume, sounding {emotion}.",
}
STYLE_WEIGHTS: Final[dict[Style, float]] = {"default": 0.5, "detailed": 0.25, "concise": 0.25}


@dataclass(frozen=True)
class Caption:
    """A caption. `spans`: for each attribute, start and end of its word in `text`, in characters."""

    text: str
    spans: dict[str, tuple[int, int]]


def compose(classes: Mapping[str, str], language: Language, style: Style) -> Caption:
    """The caption for `classes`, deterministic. Raises `KeyError` if an attribute of the style is missing."""
    text, spans = "", {}
    for piece in re.split(r"(\{\w+\})", TEMPLATES[language, style]):
        if piece.startswith("{"):
            attribute = piece[1:-1]
            word = WORDS[language][attribute][classes[attribute]]
            spans[attribute] = (len(text), len(text) + len(word))
            text += word
        else:
            text += piece
    return Caption(text, spans)


def attributes_of(language: Language, style: Style) -> tuple[str, ...]:
    """Attributes that captions of this style mention, in order."""
    return tuple(re.findall(r"\{(\w+)\}", TEMPLATES[language, style]))


def classes_in(text: str, language: Language) -> dict[str, str]:
    """The classes that `text` names, by attribute, as specdec reads them."""
    return {name: class_ for name, class_ in Lexicon.shipped().labels(text, language).items() if class_ is not None}


def is_well_formed(text: str, language: Language, style: Style) -> bool:
    """Whether `text` is exactly a caption that `compose` can write."""
    try:
        return compose(classes_in(text, language), language, style).text == text.strip()
    except KeyError:
        return False
