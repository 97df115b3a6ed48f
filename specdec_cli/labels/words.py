"""Attributes and their classes in Chinese; in English they are called as they are named in transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specdec_cli.prompts import Language

CHINESE: Final[Mapping[str, str]] = {
    "voice": "声音",
    "rate": "语速",
    "pitch": "音高",
    "range": "语调起伏",
    "volume": "音量",
    "pauses": "停顿",
    "timbre": "音色",
    "emotion": "情绪",
    "male": "男声",
    "female": "女声",
    "slow": "慢",
    "moderate": "适中",
    "fast": "快",
    "low": "低",
    "medium": "中",
    "high": "高",
    "flat": "平稳",
    "lively": "丰富",
    "soft": "轻",
    "normal": "正常",
    "loud": "响",
    "few": "少",
    "many": "多",
    "mellow": "柔和",
    "balanced": "均衡",
    "bright": "明亮",
    "neutral": "中性",
    "happy": "高兴",
    "sad": "悲伤",
    "angry": "愤怒",
    "fearful": "恐惧",
    "disgusted": "厌恶",
    "surprised": "惊讶",
}
"""Name of an attribute or a class -> its name in Chinese; those of a user's lexicon have none."""


def shown(name: str, language: Language) -> str:
    """The name of an attribute or a class in a language."""
    return CHINESE.get(name, name) if language == "zh" else name
