"""Which noun a word belongs to: "slow" to "pace" in "a slow pace and a high pitch", 较慢 to 语速 in 语速较慢.

Every noun of the sentence has a distance from the word, and the nearest one that the word goes with is taken.
The distances are ours: they rank the few ways in which captions put a quality beside its noun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    word = mentions[index]
    distances = []
    for other in range(max(index - _AROUND, 0), min(index + _AROUND + 1, len(mentions))):
        noun = mentions[other]
        if other == index or noun.sentence != word.sentence or not _named(word, noun):
            continue
        first, second = sorted((other, index))
        gap = row[mentions[first].end : mentions[second].start]
        if (distance := _DISTANCES[language, other < index](gap)) is not None:
            between = sum(bool(mention.meaning.topics) for mention in mentions[first + 1 : second])
            distances.append((distance + _PER_NOUN * between, other))
    return min(distances)[1] if distances else None


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


def _english_noun_first(gap: Sequence[str]) -> float | None:
    if len(gap) > 8:
        return None
    if _COPULAS.intersection(gap) and COMMA not in gap:
        return 0.2 + 0.05 * len(gap)
    distance = 1 + 0.5 * len(gap) + 2 * gap.count(COMMA) + 3 * len(_CLOSED.intersection(gap))
    return distance if distance <= 4 else None


def _english_word_first(gap: Sequence[str]) -> float | None:
    distance = 0.5 * len(gap) + gap.count(COMMA) + gap.count("and") + 3 * len(_CLOSED.intersection(gap))
    return distance if distance <= 3 else None


def _chinese_noun_first(gap: Sequence[str]) -> float | None:
    if COMMA in gap[1:3] and gap[gap.index(COMMA) - 1] in _TOPIC_ENDS:
        gap = gap[gap.index(COMMA) + 1 :]  # 语速呢, 比较快
    if COMMA in gap or len(gap) > 16:
        return None
    return 0.1 * len(gap) + 0.5 * gap.count("、")


def _chinese_word_first(gap: Sequence[str]) -> float | None:
    if COMMA in gap:
        return None
    if gap and gap[0] == "的":
        return 0.03 + 0.02 * len(gap) if len(gap) <= 6 else None
    return 0.5 + 0.1 * len(gap) if len(gap) <= 2 else None


_DISTANCES: Final = {
    ("en", True): _english_noun_first,
    ("en", False): _english_word_first,
    ("zh", True): _chinese_noun_first,
    ("zh", False): _chinese_word_first,
}
"""(Language, whether the noun comes first) -> distance over the units between, or None where they do not belong."""
