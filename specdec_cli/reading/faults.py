"""What makes a text no description: a refusal, another language than asked for, nothing but words to the listener."""

from __future__ import annotations

import re
from typing import Final, Literal

from specdec_cli.prompts import Language
from specdec_cli.reading.closing import caption_of, describes, sentences_of
from specdec_cli.reading.phrases import REFUSES
from specdec_cli.types import Flag

_HAN: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_WORD: Final = re.compile(r"[A-Za-zÀ-ɏ]{2,}(?:['’][A-Za-z]+)*|\b[AI]\b")
_OTHER: Final = re.compile(r"[\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]{2,}")
_HAN_A_WORD: Final = 1.5  # Chinese characters to a word
_FEWEST: Final = {"zh": 1.0, "en": 3.0, "other": 3.0}  # words that tell a language; Latin letters stand in names, too


def language_of(text: str) -> str | None:
    """The language that most of a text is in: zh, en, or `other` for other scripts; None if there is too little.

    Quotations do not count, unless there is nothing else.
    """
    bare = "".join(sentences_of(text)).replace("\0", " ")
    for part in (bare, text):
        words = {
            "zh": len(_HAN.findall(part)) / _HAN_A_WORD,
            "en": len(_WORD.findall(part)),
            "other": len(_OTHER.findall(part)),
        }
        likeliest = max(words, key=lambda name: words[name])
        if words[likeliest] >= _FEWEST[likeliest]:
            return likeliest
    return None


def refuses(text: str) -> bool:
    """Whether a text, or what there is of it, refuses in its first sentence, or in its second after an empty one."""
    for sentence in sentences_of(text)[:2]:
        if (found := REFUSES.search(sentence)) is not None:
            return not describes(sentence[: found.start()])
        if describes(sentence):
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
