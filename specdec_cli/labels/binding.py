"""Which noun a word belongs to: "slow" to "pace" in "a slow pace and a high pitch", 较慢 to 语速 in 语速较慢.

Every noun of the sentence has a distance from the word, and the nearest one that the word goes with is taken.
The distances are ours: they rank the few ways in which captions put a quality beside its noun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from specdec_cli.labels.units import COMMA, units
from specdec_cli.labels.vocabulary import Mention
from specdec_cli.prompts import Language

_COPULAS: Final = frozenset(
    units("is was are were be being remain remains stay stays sound sounds seem seems feel feels appear appears :")
)
_CLOSED: Final = _COPULAS.union(units("with at in on to a an the his her their its has have"))
"""Words that no quality reaches over to a noun that follows: another phrase begins with them."""
_JOINING: Final[Mapping[Language, frozenset[str]]] = {
    "zh": frozenset("、和与及以跟都"),
    "en": frozenset(["and", "the", COMMA]),
}
_TOPIC_ENDS: Final = frozenset("呢嘛面话")
"""What a comma may follow between a noun and its quality: 音量嘛, 音量方面, 音量的话."""
_AROUND: Final = 12
"""Known phrases before and after a word among which its noun is looked for."""
_PER_NOUN: Final = 0.5
"""For each other noun that stands between."""


def bind(row: Sequence[str], mentions: Sequence[Mention], language: Language) -> dict[int, dict[str, str]]:
    """What words mean beside their nouns: index of a word among `mentions` -> attribute -> class.

    `mentions` are the known phrases in `row`, the caption's units.
    """
    nearest = ((at, _nearest(row, mentions, at, language)) for at, word in enumerate(mentions) if word.meaning.near)
    nouns = {index: noun for index, noun in nearest if noun is not None}
    bound = {}
    for index, noun in nouns.items():
        bound[index] = _named(mentions[index], mentions[noun])
        for other in _shared(row, mentions, noun, -1 if noun < index else 1, _JOINING[language]):
            if other in nouns.values():
                break
            bound[index] |= _named(mentions[index], mentions[other])
    return bound


def _named(word: Mention, noun: Mention) -> dict[str, str]:
    """Attribute -> class that `word` names beside `noun`, if any; a later file's group counts first."""
    near = word.meaning.near
    return {topic[0]: near[topic] for topic in noun.meaning.topics if topic in near}


def _nearest(row: Sequence[str], mentions: Sequence[Mention], index: int, language: Language) -> int | None:
    word, distances = mentions[index], []
    for other in range(max(index - _AROUND, 0), min(index + _AROUND + 1, len(mentions))):
        noun = mentions[other]
        if other != index and noun.sentence == word.sentence and _named(word, noun):
            first, second = sorted((other, index))
            distance = _distance(row[mentions[first].end : mentions[second].start], language, other < index)
            between = sum(bool(mention.meaning.topics) for mention in mentions[first + 1 : second])
            distances.append((distance + _PER_NOUN * between, other))
    distance, nearest = min(distances, default=(inf, None))
    return nearest if distance < inf else None


def _shared(
    row: Sequence[str], mentions: Sequence[Mention], noun: int, step: int, joining: frozenset[str]
) -> Iterator[int]:
    """Nouns that share the word of the noun they are joined to: "pitch and volume are moderate", 语速、音量适中."""
    other = noun + step
    while 0 <= other < len(mentions) and mentions[other].meaning.topics:
        first, second = sorted((other - step, other))
        gap = row[mentions[first].end : mentions[second].start]
        if not gap or not joining.issuperset(gap):
            return
        yield other
        other += step


def _distance(gap: Sequence[str], language: Language, noun_first: bool) -> float:
    """Over the units between a noun and a word, one of which comes first; infinite where they do not belong."""
    size, commas = len(gap), gap.count(COMMA)
    if language == "en":
        if noun_first and size <= 8 and not commas and _COPULAS.intersection(gap):
            return 0.2 + 0.05 * size
        marks = 1 + 2 * commas if noun_first else commas + gap.count("and")
        distance = marks + 0.5 * size + 3 * len(_CLOSED.intersection(gap))
        return distance if distance <= (4 if noun_first else 3) else inf
    if noun_first:
        if COMMA in gap[1:3] and gap[gap.index(COMMA) - 1] in _TOPIC_ENDS:
            gap = gap[gap.index(COMMA) + 1 :]  # 语速呢, 比较快
        return 0.1 * len(gap) + 0.5 * gap.count("、") if COMMA not in gap and len(gap) <= 16 else inf
    if gap and gap[0] == "的":
        return 0.03 + 0.02 * size if not commas and size <= 6 else inf
    return 0.5 + 0.1 * size if not commas and size <= 2 else inf
