"""Where a caption ends (before the first sentence for the listener), and which texts are not descriptions.

Instruction-tuned models close a description with an offer, a question back or an invented turn of the user's. Such a
sentence is found by its form: a second person, an offer or a wish, a question, the name of a turn. A sentence that
takes the listener for the speaker ("you sound tired") describes. A quotation is another person's speech, and is
ignored. A first sentence that describes is never left out.

The rule is a function of the text alone. Where it applies to a prefix, it applies at the same place to every
continuation: to an offer or the name of a turn as soon as it is written, to other sentences once they are complete. So
a text that ends as soon as the rule applies is cut where the whole text would be, in blocks of any length. The last
sentence of a finished text is complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final, Literal

from specdec_cli.prompts import Language
from specdec_cli.reading.phrases import (
    ASKS,
    BARE_TURN,
    CONTRASTS,
    DENIED,
    DESCRIBES,
    FILLER,
    OFFERS,
    PONDERS,
    REFUSES,
    SECOND,
    SPOKEN_TO,
    STATES,
    TURN,
    WISHES,
)
from specdec_cli.types import Flag

_CLOSERS: Final = "”’\"'」』）)】\\]*"
# A full stop ends a sentence where a space, a capital or a Chinese character follows; the others always do. The
# particle 吧 ends one, too, where words for the listener follow without a mark.
_BREAK: Final = re.compile(
    rf"(?:[。！？!?…\n]|(?<![\s.])\.(?=[.{_CLOSERS}]*(?:\s|[A-Z\u4e00-\u9fff])))[。！？!?….{_CLOSERS}]*+\s*+(?=[^\ufffd])"
    r"|\s*(?=\b(?:Human|User|Assistant|用户)\s*[:：])"
    r"|(?<=吧)(?=嗯[，…]|不过|[你您](?:要是|如果|怎么|还有)|(?:要是|如果)[你您还有])"
)
# An opening mark without a closing one reaches over this number of characters.
_QUOTED: Final = re.compile(
    r"“[^”\n]{0,200}”?|「[^」\n]{0,200}」?|『[^』\n]{0,200}』?|(?<![A-Za-z0-9])\"[^\"\n]{0,200}\"?|‘[^’\n]{0,120}’?"
    r"|(?<![A-Za-z0-9])'(?=[A-Za-z])(?:[^'\n]|(?<=[a-z])'(?=[a-z])){0,120}'?"
)
_UNFINISHED: Final = re.compile(r"(?:[A-Za-z'’]+|\ufffd+)\Z")  # a word or a character of which more may come
_WORDS: Final = {
    "zh": (re.compile(r"[\u3400-\u9fff\uf900-\ufaff]"), 1.5, 1.0),
    "en": (re.compile(r"[A-Za-zÀ-ɏ]{2,}(?:['’][A-Za-z]+)*|\b[AI]\b"), 1.0, 3.0),
    "other": (re.compile(r"[\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]{2,}"), 1.0, 3.0),
}
"""Language -> pattern of a unit, units a word, and words needed: names in Chinese may be in Latin letters."""


_BEATEN_ABOUT: Final = 3
"""Sentences in which a text may refuse, as long as none describes."""


@dataclass(frozen=True, slots=True)
class CaptionRules:
    """Where the caption ends in the text that a model writes."""

    closes: bool  # where it stops describing
    stop_strings: Sequence[str] = ()  # before the first of these

    def caption(self, text: str) -> str:
        """The caption in a finished text."""
        if self.stop_strings:
            text = re.split("|".join(map(re.escape, self.stop_strings)), text, maxsplit=1)[0]
        return caption_of(text) if self.closes else text.strip()

    def so_far(self, text: str) -> str:
        """The caption in an unfinished text."""
        return (text[: description_end(text)] if self.closes else text).strip()

    def settled(self, caption: str) -> str:
        """The part of an unfinished caption that no later token can change."""
        for stop in self.stop_strings:
            caption = caption.split(stop, 1)[0]
            begun = next((size for size in range(len(stop) - 1, 0, -1) if caption.endswith(stop[:size])), 0)
            caption = caption[: len(caption) - begun]
        return settled(caption) if self.closes else caption.rstrip()


def caption_of(text: str) -> str:
    """The part of a finished text that describes; empty if nothing does."""
    return text[: description_end(text, finished=True)].strip()


def description_end(text: str, *, finished: bool = False) -> int | None:
    """Index where a text stops describing; None if it has not so far. `finished`: nothing follows."""
    if not finished:
        text = _UNFINISHED.sub("", text)
    described, others, start = False, 0, 0
    for sentence in sentences_of(text):
        end = start + len(sentence)
        complete = finished or end < len(text)
        if _for_listener(sentence, first=not described, complete=complete):
            others += 1
            if described or others > 1:  # after a single one a description may still come
                return start if described else 0
        elif complete and FILLER.match(text, start, end) is None:
            described = True
        start = end
    return 0 if finished and others and not described else None


def settled(text: str) -> str:
    """The part of an unfinished text that `caption_of` keeps in every continuation: all but its last sentence.

    Empty as long as no sentence describes, since an offer may follow, of which nothing is kept.
    """
    text, start = _UNFINISHED.sub("", text[: description_end(text)]), 0
    *complete, last = sentences_of(text)
    for sentence in complete:
        end = start + len(sentence)
        if FILLER.match(text, start, end) is None and not _for_listener(sentence, first=True, complete=True):
            return caption_of(text[: len(text) - len(last)])
        start = end
    return ""


def sentences_of(text: str) -> list[str]:
    """The sentences, each with the spaces behind it; quotations and their marks become NUL characters."""
    bare = _QUOTED.sub(lambda found: "\0" * len(found[0]), text)
    breaks = (found.end() for found in _BREAK.finditer(text))
    starts = [0, *(end for end in breaks if bare[end - 1] != "\0")]
    return [bare[start:end] for start, end in pairwise([*starts, len(text)])]


@lru_cache(maxsize=256)  # a text is judged after every token, and all sentences but its last stay what they are
def _for_listener(sentence: str, *, first: bool, complete: bool) -> bool:
    """Whether a sentence is for the listener, by its form; `complete`: the sentence has ended.

    If nothing before it describes (`first`), only a plain offer or question ends it, and no refusal.
    """
    if TURN.search(sentence):
        return True
    if not complete:  # an offer stays one, whatever follows
        return not first and OFFERS.search(sentence) is not None
    if BARE_TURN.search(sentence):
        return True
    if (first and REFUSES.search(sentence)) or FILLER.match(sentence):
        return False
    offers = OFFERS.search(sentence) is not None or WISHES.search(sentence) is not None
    asks = ASKS.search(sentence) is not None and PONDERS.search(sentence) is None
    addresses = SECOND.search(sentence) is not None
    if first:
        return (offers or (asks and addresses)) and DESCRIBES.search(sentence) is None
    return offers or asks or (addresses and SPOKEN_TO.search(sentence) is None)


def language_of(text: str) -> str | None:
    """The language of most of a text without its quotations: zh, en, `other` scripts; None if the text is too short."""
    bare = "".join(sentences_of(text)).replace("\0", " ")
    for part in (bare, text):
        words = {name: len(pattern.findall(part)) / size for name, (pattern, size, _) in _WORDS.items()}
        likeliest = max(words, key=words.__getitem__)
        if words[likeliest] >= _WORDS[likeliest][2]:
            return likeliest
    return None


def refuses(text: str) -> bool:
    """Whether a text, finished or not, refuses in one of its first sentences, before any that describes."""
    return _refusal(text) is not None


def only_guesses(text: str) -> bool:
    """Whether a text refuses in a sentence that does not go on to describe: "Hard to tell, but he sounds sad" does."""
    rest = _refusal(text)
    return rest is not None and not (CONTRASTS.search(rest) and STATES.search(rest))


def _refusal(text: str) -> str | None:
    """What follows a refusal in its sentence; None if the text does not refuse."""
    said = (sentence for sentence in sentences_of(text) if FILLER.match(sentence) is None)
    for sentence in islice(said, _BEATEN_ABOUT):
        found = REFUSES.search(sentence)
        if STATES.search(DENIED.sub("", sentence[: found.start()] if found else sentence)):
            return None
        if found:
            return sentence[found.end() :]
    return None


def fault_of(text: str, language: Language) -> Literal["refusal", "language"] | None:
    """Why a text, or the beginning of one, is not a caption in `language`: `refusal`, `language`, or None."""
    if refuses(text):
        return "refusal"
    return "language" if language_of(text) not in (language, None) else None


def flags_of(text: str, language: Language) -> tuple[Flag, ...]:
    """The flags of a finished text: why it is not a description in `language`."""
    caption = caption_of(text)
    empty = re.search(r"\w", caption) is None
    wrong = language_of(text if empty else caption) not in (language, None)
    found: dict[Flag, bool] = {"refusal": refuses(text), "language": wrong, "no_description": empty}
    return tuple(name for name, holds in found.items() if holds)
