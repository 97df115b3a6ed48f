"""Captions: from class names to text in both languages and three styles, and back from text to class names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specdec_cli.prompts import Language, Style

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
    "en": {
        "voice": {"male": "male", "female": "female"},
        "rate": {"slow": "slow", "moderate": "moderate", "fast": "fast"},
        "pitch": {"low": "low", "medium": "medium", "high": "high"},
        "range": {"flat": "flat", "lively": "lively"},
        "volume": {"soft": "soft", "normal": "normal", "loud": "loud"},
        "pauses": {"few": "few", "many": "many"},
        "timbre": {"mellow": "mellow", "balanced": "balanced", "bright": "bright"},
        "emotion": {
            "neutral": "neutral",
            "happy": "happy",
            "sad": "sad",
            "angry": "angry",
            "fearful": "fearful",
            "disgusted": "disgusted",
            "surprised": "surprised",
        },
    },
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

_FINDERS: Final[dict[Language, dict[str, str]]] = {
    "zh": {
        "voice": "({})",
        "rate": "语速({})",
        "pitch": "音调({})",
        "range": "起伏({})",
        "volume": "音量({})",
        "pauses": "停顿({})",
        "timbre": "音色是({})",
        "emotion": "情绪是?({})",
    },
    "en": {
        "voice": r"\b({}) voice",
        "rate": r"\b({}) pace",
        "pitch": r"\b({}) pitch",
        "range": r"\b({}) intonation",
        "volume": r"\b({}) volume",
        "pauses": r"\b({}) pauses",
        "timbre": r"\b({}) timbre",
        "emotion": r"\b(?:sounds|sounding|emotion is) ({})\b",
    },
}


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


def parse(text: str, language: Language) -> dict[str, str]:
    """Class names found in `text`, of any style; attributes that are not found are left out."""
    found: dict[str, str] = {}
    for attribute, finder in _FINDERS[language].items():
        names = {word: name for name, word in WORDS[language][attribute].items()}
        if match := re.search(finder.format("|".join(names)), text):
            found[attribute] = names[match.group(1)]
    return found


def is_well_formed(text: str, language: Language, style: Style) -> bool:
    """Whether `text` is exactly a caption that `compose` can write."""
    classes = parse(text, language)
    try:
        return compose(classes, language, style).text == text.strip()
    except KeyError:
        return False
