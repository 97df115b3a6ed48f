"""What makes a text no description: a refusal, another language than asked for, nothing but words to the listener."""

from __future__ import annotations

import re
from typing import Final, Literal

from specdec_cli.prompts import Language
from specdec_cli.reading.closing import caption_of, sentences_of
from specdec_cli.reading.phrases import DESCRIBES, REFUSES
from specdec_cli.types import Flag

_WORDS: Final = {
    "zh": (re.compile(r"[\u3400-\u9fff\uf900-\ufaff]"), 1.5, 1.0),
    "en": (re.compile(r"[A-Za-zÀ-ɏ]{2,}(?:['’][A-Za-z]+)*|\b[AI]\b"), 1.0, 3.0),
    "other": (re.compile(r"[\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]{2,}"), 1.0, 3.0),
}
"""A word or a character, how many make a word, and the words that tell a language: names may be in Latin letters."""


def language_of(text: str) -> str | None:
    """The language that most of a text is in: zh, en, or `other` for other scripts; None if there is too little.

    Quotations do not count, unless there is nothing else.
    """
    bare = "".join(sentences_of(text)).replace("\0", " ")
    for part in (bare, text):
        words = {name: len(pattern.findall(part)) / size for name, (pattern, size, _) in _WORDS.items()}
        likeliest = max(words, key=words.__getitem__)
        if words[likeliest] >= _WORDS[likeliest][2]:
            return likeliest
    return None


def refuses(text: str) -> bool:
    """Whether a text, or what there is of it, refuses in its first sentence, or in its second after an empty one."""
    for sentence in sentences_of(text)[:2]:
        if (found := REFUSES.search(sentence)) is not None:
            return DESCRIBES.search(sentence, 0, found.start()) is None
        if DESCRIBES.search(sentence):
            return False
    return False


def fault_of(text: str, language: Language) -> Literal["refusal", "language"] | None:
    """Why a text, or what there is of it, is no caption in `language`: `refusal`, `language`, or None."""
    if refuses(text):
        return "refusal"
    return "language" if language_of(text) not in (language, None) else None


def flags_of(text: str, language: Language) -> tuple[Flag, ...]:
    """Everything that makes a finished text no description in `language`."""
    caption = caption_of(text)
    empty = re.search(r"\w", caption) is None
    wrong = language_of(text if empty else caption) not in (language, None)
    found: dict[Flag, bool] = {"refusal": refuses(text), "language": wrong, "no_description": empty}
    return tuple(name for name, holds in found.items() if holds)
