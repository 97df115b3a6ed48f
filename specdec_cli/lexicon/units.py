"""Text as units: words of scripts that put spaces between them, characters of Chinese, and punctuation marks.

Reading works on units, so that a pattern is matched by comparing words and never by a regular expression that
somebody wrote.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

GAP: Final = "..."
ENDS: Final = frozenset(".。;!?()")
"""Marks that end a sentence, for reading; `normalise` has made them half-width."""
COMMA: Final = ","

_UNIT: Final = re.compile(r"[a-zß-ɏ]+|\d+|[^\W_]|[.。;!?(),、:]")
_NEGATED_VERB: Final = re.compile(r"\b([a-z]+)n't\b")
_POSSESSIVE: Final = re.compile(r"'s\b")


def normalise(text: str) -> str:
    """Half-width, lower case, one kind of apostrophe; `n't` becomes a word of its own and line ends end sentences."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    text = _NEGATED_VERB.sub(r"\1 not", text)
    text = _POSSESSIVE.sub("", text)
    return text.replace("\n", ". ").replace("—", ",").replace("…", ".")


def units(text: str) -> list[str]:
    """The units of a text, in order; hyphens, quotes and spaces only separate them."""
    return _UNIT.findall(normalise(text))
