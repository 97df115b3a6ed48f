"""The instructions that ship with specdec, by language and style.

They are ordinary user turns: the model family's adapter wraps them in its chat template, after the audio.
The mini pair was trained on exactly these strings, so a change of wording here means training it again.
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


def prompt_for(language: Language, style: Style = "default") -> str:
    """The shipped instruction for a caption in `language` and `style`."""
    return PROMPTS[language, style]
