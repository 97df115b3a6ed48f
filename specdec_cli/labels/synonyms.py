"""Tokens that mean the same: token ids in groups, by number, for the decoding loop."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.units import GAP, units
from specdec_cli.labels.vocabulary import Said, fewest
from specdec_cli.prompts import Language

_DEGREE: Final = re.compile(
    "^(?:比较|非常|十分|相当|特别|有点|有些|略微|较|偏|很|略|稍|更|太|挺|颇|极|最)|[的地得着了]$"
)
"""Words of degree and particles that a Chinese token may hold beside the word that names the class: 较快, 高兴地."""


def synonyms(lexicon: Lexicon, pieces: Iterable[tuple[int, str]], language: Language) -> dict[int, int]:
    """Token id -> number of its group, in which tokens may stand for one another without another class being named.

    `pieces` are the tokens of a vocabulary with the space before them, `language` is that of the captions. A token
    names what the phrase of its text names: " cheerful" and " joy" are synonyms. It must begin a word, so "ing" and
    "he" name nothing; the first part of a word names what all phrases and tokens that begin so name. A token has no
    group where those differ, where one of them is something else in the lexicon (a noun that qualities go with, a
    negation), or where it is too short.
    """
    whole: dict[str, Said] = {}  # phrases without spaces, and their beginnings, where those that begin so agree
    begun: dict[str, Said] = {}
    for steps, meaning in lexicon.vocabularies[language].meanings.items():
        spelled, _, wild = "".join(steps).partition(GAP)
        spelled = spelled.removesuffix("*")
        whole[spelled] = frozenset() if wild or meaning.markers or meaning.topics else meaning.said
        for end in range(max(fewest(spelled), 2), len(spelled)):
            if begun.setdefault(spelled[:end], whole[spelled]) != whole[spelled]:
                begun[spelled[:end]] = frozenset()
    words = [(id_, "".join(units(text))) for id_, text in pieces if _begins_a_word(text)]
    vocabulary = sorted({word for _, word in words})
    groups: defaultdict[Said, list[int]] = defaultdict(list)
    for id_, word in words:
        said = whole.get(word) or whole.get(_DEGREE.sub("", word))
        if said is None and (said := begun.get(word)):
            longer = vocabulary[bisect_left(vocabulary, word) : bisect_left(vocabulary, f"{word}\U0010ffff")]
            others = {whole.get(other, begun.get(other)) for other in longer}
            said = said if others == {said} else None
        if said:
            groups[said].append(id_)
    return {id_: number for number, ids in enumerate(groups.values()) for id_ in ids}


def _begins_a_word(text: str) -> bool:
    """Whether a token stands at the beginning of a word, in scripts without spaces anywhere, and is long enough."""
    stripped = text.strip()
    if not stripped or "\ufffd" in text or (stripped.isascii() and len(stripped) < fewest(stripped)):
        return False
    return not (text[0].isascii() and text[0].islower())
