"""Where a caption ends: before the first sentence that is for the listener and not about the speaker.

Instruction-tuned models close a description with an offer, a question back or an invented turn of the user's. Such a
sentence shows itself by its form: a second person, an offer or a wish, a question, the name of a turn. What stands in
quotation marks is what somebody else says, and does not count. A first sentence that describes is never left out.

The rule is a function of the text alone, and what it finds in a prefix it finds at the same place in every
continuation. So a text that ends as soon as the rule applies is cut where the whole text would be, however it was
divided into blocks. Only where a text has ended is its last sentence judged by what there is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from specdec_cli.reading.phrases import ASKS, BARE_TURN, DESCRIBES, FILLER, OFFERS, PONDERS, REFUSES, SETTLED, TURN

_CLOSERS: Final = "”’\"'」』）)】\\]*"
# A full stop ends a sentence where a space, a capital or a Chinese character follows; the others always do.
_BREAK: Final = re.compile(
    rf"(?:[。！？!?…\n]|(?<![\s.])\.(?=[.{_CLOSERS}]*(?:\s|[A-Z\u4e00-\u9fff])))[。！？!?….{_CLOSERS}]*+\s*+(?=[^\ufffd])"
    r"|\s*(?=\b(?:Human|User|Assistant|用户)\s*[:：])"
)
# An opening mark without its fellow counts for so many characters.
_QUOTED: Final = re.compile(
    r"“[^”\n]{0,200}”?|「[^」\n]{0,200}」?|『[^』\n]{0,200}』?|(?<![A-Za-z0-9])\"[^\"\n]{0,200}\"?|‘[^’\n]{0,120}’?"
    r"|(?<![A-Za-z0-9])'(?=[A-Za-z])(?:[^'\n]|(?<=[a-z])'(?=[a-z])){0,120}'?"
)
_UNFINISHED: Final = re.compile(r"(?:[A-Za-z'’]+|\ufffd+)\Z")  # a word or a character of which more may come


def caption_of(text: str) -> str:
    """The part of a finished text that describes; empty if nothing does."""
    return text[: description_end(text, finished=True)].strip()


def description_end(text: str, *, finished: bool = False) -> int | None:
    """Where a text goes on to something else than a description, an index; None if it has not, as far as it shows.

    `finished`: nothing follows, so that the last sentence can be judged.
    """
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


def sentences_of(text: str) -> list[str]:
    """The sentences, with the spaces that follow each; what is quoted, and the marks, as NUL characters."""
    bare = _QUOTED.sub(lambda found: "\0" * len(found[0]), text)
    breaks = (found.end() for found in _BREAK.finditer(text))
    starts = [0, *(end for end in breaks if bare[end - 1] != "\0")]
    return [bare[start:end] for start, end in pairwise([*starts, len(text)])]


@lru_cache(maxsize=256)  # a text is judged after every token, and all sentences but its last stay what they are
def _for_listener(sentence: str, *, first: bool, complete: bool) -> bool:
    """Whether a sentence shows that it is for the listener; `complete`: nothing more of it may come.

    If nothing before it describes (`first`), only a plain offer or question counts, and no refusal.
    """
    if TURN.search(sentence) or (complete and BARE_TURN.search(sentence)):
        return True
    if (first and (not complete or REFUSES.search(sentence))) or FILLER.match(sentence):
        return False
    offers = OFFERS.search(sentence) is not None
    asks = ASKS.search(sentence) is not None and PONDERS.search(sentence) is None
    settled = ((found.end(), enough) for pattern, enough in SETTLED for found in pattern.finditer(sentence))
    addresses = any(complete or len(sentence) - end >= enough for end, enough in settled)
    if first:
        return (offers or (asks and addresses)) and DESCRIBES.search(sentence) is None
    return offers or asks or addresses
