"""The instructions that ship with specdec, by language and style.

Each is the text of a user turn, which a family's chat template puts after the audio.
"""

from __future__ import annotations

from typing import Final, Literal

Language = Literal["zh", "en"]
Style = Literal["default", "detailed", "concise"]

PROMPTS: Final[dict[tuple[Language, Style], str]] = {
    ("zh", "default"): "请用中文描述说话人的声音特征和情绪。",
    ("zh", "detailed"): (
        "请用中文以两到三句话详细描述说话人的语速、音调、音量、停顿和音色，最后给出最可能的一种情绪。"
    ),
    ("zh", "concise"): "请用中文一句话概括说话人的声音和情绪。",
    ("en", "default"): "Describe the speaker's voice and emotion in English.",
    ("en", "detailed"): (
        "Describe in English the speaker's rate, pitch, loudness, pauses and timbre in two or three sentences, "
        "then name the single most likely emotion."
    ),
    ("en", "concise"): "Summarise the speaker's voice and emotion in one English sentence.",
}
"""Instructions for the mini pair, which was trained on exactly these: other words need another training."""

_RULES: Final[dict[Language, str]] = {
    "zh": "只用中文和第三人称，不要用“我”或“你”，不要提问，不要提供帮助，不要问候，也不要复述说话的内容。",
    "en": (
        "Write in English only and in the third person; no first or second person, no questions, no offers, "
        "no greeting, and do not repeat what is said."
    ),
}
OPEN_PROMPTS: Final[dict[tuple[Language, Style], str]] = {
    ("zh", "default"): "请用一句话描述说话人：最可能的一种情绪，以及两到三个声音线索，如语速、音调、音量、停顿或音色。",
    ("zh", "detailed"): "请用两到三句话描述说话人的语速、音调、音量、停顿和音色，最后给出最可能的一种情绪。",
    ("zh", "concise"): "请用一个不超过二十字的短句描述说话人最可能的一种情绪和一个声音线索。",
    ("en", "default"): (
        "Describe the speaker in one sentence: the single most likely emotion, and two or three vocal cues such as "
        "rate, pitch, loudness, pauses or timbre."
    ),
    ("en", "detailed"): (
        "Describe the speaker's rate, pitch, loudness, pauses and timbre in two or three sentences, and end with the "
        "single most likely emotion."
    ),
    ("en", "concise"): (
        "Describe the speaker in one sentence of at most twelve words: the single most likely emotion and one vocal "
        "cue."
    ),
}
"""Instructions for every other model; `_RULES` of form follow, without which many models address the listener."""


def prompt_for(language: Language, style: Style, *, mini: bool) -> str:
    """The shipped instruction for a caption in `language` and `style`; `mini`: for the mini pair."""
    if mini:
        return PROMPTS[language, style]
    return f"{OPEN_PROMPTS[language, style]}{' ' if language == 'en' else ''}{_RULES[language]}"
