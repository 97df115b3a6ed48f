"""Text as units: words of scripts that put spaces between them, characters of Chinese, and punctuation marks.

A pattern of a lexicon file is matched by comparing units, so no file holds a regular expression.
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


def normalise(text: str) -> str:
    """Half-width, lower case, one kind of apostrophe; `n't` becomes a word of its own and line ends end sentences."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    text = re.sub(r"'s\b", "", re.sub(r"\b([a-z]+)n't\b", r"\1 not", text))
    return text.replace("\n", ". ").replace("—", ",").replace("…", ".")


def units(text: str) -> list[str]:
    """The units of a text, in order; hyphens, quotes and spaces only separate them."""
    return _UNIT.findall(normalise(text))


def folded(word: str) -> str:
    """A word or phrase of a table without case, width, hyphens and underscores."""
    return " ".join(normalise(word).replace("_", " ").replace("-", " ").split())


_QUOTED: Final = re.compile("“[^“”]*”|\"[^\"]*\"|「[^「」]*」|(?<!\\w)['‘][^'’‘]*['’](?!\\w)")
_SHORTEST_QUOTATION: Final = 6
"""Fewest units of a quotation that is speech; a shorter one may name a class ('annoyed', “喜悦”)."""


def quotations(text: str) -> list[tuple[int, int]]:
    """Start and end, in units, of quoted speech, which does not describe the voice."""
    found = []
    for match in _QUOTED.finditer(text):
        start, length = len(units(text[: match.start()])), len(units(match[0]))
        if length >= _SHORTEST_QUOTATION:
            found.append((start, start + length))
    return found
