"""Which classes a caption names: those of the words that nothing negates, and how strongly each is named.

Some words belong to a noun: "slow" to "pace" in "a slow pace and a high pitch", 较慢 to 语速 in 语速较慢. Every noun of
the sentence has a distance from the word, and the nearest one that the word goes with is taken. The distances are
rules of thumb: they rank the few ways in which captions put a quality beside its noun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf
from typing import Final, Literal

from specdec_cli.labels.lexicon_file import Attribute
from specdec_cli.labels.units import COMMA, quotations, units
from specdec_cli.labels.vocabulary import Mention, Vocabulary
from specdec_cli.prompts import Language

Strength = Literal["likeliest", "plain", "slight", "weak"]
"""From the strongest: called likeliest or concluded; named plainly; hinted at; named beside the point."""

LONGEST: Final = 2000
"""Units of a text that are read; a caption has a few dozen."""
REACH: Final[Mapping[Language, int]] = {"zh": 7, "en": 5}
"""Most units between a negation and the word that it negates."""
NOUN_REACH: Final[Mapping[Language, int]] = {"zh": 7, "en": 3}
"""Most units between a negation and the noun that it negates: "no particularly strong emotion"."""
_AROUND: Final = 12
"""Known phrases before and after a word among which its noun is looked for."""
_ALTERNATIVE: Final = frozenset(["or", "nor", "或"])
_LISTING: Final = _ALTERNATIVE.union(["and", "a", "an", "any", "the", COMMA, *"、和与及以者也"])
_JOINING: Final = {"zh": frozenset("、和与及以跟都"), "en": frozenset(["and", "the", COMMA])}
_COPULAS: Final = frozenset(
    units("is was are were be being remain remains stay stays sound sounds seem seems feel feels appear appears :")
)
_CLOSED: Final = _COPULAS.union(units("with at in on to a an the his her their its has have"))
"""Words that no quality reaches over to a noun that follows: another phrase begins with them."""
_ATTRIBUTIVE: Final = _CLOSED.union(_LISTING, ["of"]) - _COPULAS
"""Words behind a copula after which a quality may still come before its noun: "is of low pitch"."""
_TOPIC_ENDS: Final = frozenset("呢嘛面话")
"""What a comma may follow between a noun and its quality: 音量嘛, 音量方面, 音量的话."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A phrase that names a class of an attribute."""

    attribute: str
    class_: str
    strength: Strength
    mention: Mention


@dataclass(frozen=True, slots=True)
class Ending:
    """The known phrase at the end of a text."""

    start: int  # its first unit; the number of units if no known phrase is there
    named: frozenset[tuple[str, str]] = frozenset()  # (attribute, class) that it names
    may_name: frozenset[tuple[str, str]] = frozenset()  # of all nouns that may follow, if it goes with one and has none
    is_noun: bool = False  # whether a word for a class may go with it
    noun: frozenset[str] = frozenset()  # the attributes whose words go with its own noun, if it has one


class Caption:
    """A caption's units, the known phrases in it, and everything that they name, negated or not."""

    def __init__(self, text: str, vocabulary: Vocabulary, rules: Mapping[str, Attribute], language: Language) -> None:
        self._row, self._rules, self._language = units(text)[:LONGEST], rules, language
        quoted, every = quotations(text), vocabulary.mentions(self._row)
        outside = [one for one in every if not any(start <= one.start and one.end <= end for start, end in quoted)]
        self._mentions = outside if any(mention.meaning.speaks for mention in outside) else every
        nearest = ((at, self._nearest(at)) for at, word in enumerate(self._mentions) if word.meaning.near)
        self._nouns = nouns = {at: noun for at, noun in nearest if noun is not None}
        self._named = list[Reading]()
        for at, word in enumerate(self._mentions):  # beside its noun or, where that gives nothing, by itself
            if at in nouns:
                self._named += [Reading(name, of, "plain", word) for name, of in self._beside(at, nouns).items()]
            else:
                self._named += [Reading(name, *named, word) for name, named in word.meaning.alone.items()]

    def readings(self) -> list[Reading]:
        """Classes that are not negated, opposites of those that are, and classes of negated nouns ("no pauses")."""
        denied = set()
        for reading in self._named:
            word, yields = reading.mention, self._rules[reading.attribute].yields
            if reading.strength == "plain" and self._negated(reading.attribute, word, REACH[self._language]):
                denied.update(self._listed_with(reading))  # "no anger, fear or joy"
            if reading.class_ not in yields and any(mention.marks("denial") for mention in self._before(word)):
                denied.add(reading)
        found = []
        for reading in self._named:
            opposites = self._rules[reading.attribute].negated
            class_ = opposites.get(reading.class_) if reading in denied else reading.class_
            if class_ is not None:
                found.append(replace(reading, class_=class_, strength=self._strength(reading)))
        for noun in self._mentions:
            for name in noun.meaning.deniable:
                absent, clauses = self._rules[name].absent, {one.mention.clause for one in self._about(name)}
                if absent and noun.clause not in clauses and self._negated(name, noun, NOUN_REACH[self._language]):
                    found.append(Reading(name, absent, "plain", noun))
        return found

    def last(self) -> Ending:
        """The known phrase at the very end, and what it names."""
        at = len(self._mentions) - 1
        if at < 0 or (word := self._mentions[at]).end < len(self._row):
            return Ending(len(self._row))
        named = frozenset((one.attribute, one.class_) for one in self.readings() if one.mention == word)
        denied = any(one.marks("negation") or one.marks("denial") for one in self._before(word))
        has_noun = at in self._nouns or self._is_predicate(word)
        beside = word.meaning.near if not (has_noun or denied) else {}
        may_name = frozenset((name, class_) for (name, _), class_ in beside.items())
        topics = self._mentions[self._nouns[at]].meaning.topics if at in self._nouns else ()
        noun = frozenset(name for name, _ in topics)
        return Ending(word.start, named, may_name, is_noun=bool(word.meaning.topics), noun=noun)

    def _is_predicate(self, word: Mention) -> bool:
        """Whether an English word is a predicate ("is clear", "sounds very clear"): no noun of it follows."""
        places = range(max(word.start - 3, 0), word.start) if self._language == "en" else ()
        return any(
            self._row[at] in _COPULAS
            and "there" not in self._row[max(at - 1, 0) : at]
            and _ATTRIBUTIVE.isdisjoint(self._row[at + 1 : word.start])
            for at in places
        )

    def _about(self, attribute: str) -> list[Reading]:
        return [one for one in self._named if one.attribute == attribute]

    def _before(self, word: Mention) -> list[Mention]:
        """The known phrases before a word in its sentence."""
        return [one for one in self._mentions if one.sentence == word.sentence and one.end <= word.start]

    def _negated(self, attribute: str, word: Mention, reach: int) -> bool:
        """Whether a negation of the same clause is at most `reach` units before a word about `attribute`.

        Between them may stand no other reading, nor a noun of another attribute that "no" makes sense with ("no pauses
        in her fast speech"), unless the two are listed ("no pauses or emotion").
        """
        # "little" in "little inflection" has named its class, and denies nothing more
        plain = [one.mention for one in self._named if one.strength == "plain"]
        taken = plain + [
            one
            for one in self._mentions
            if one.meaning.deniable - {attribute} and not _LISTING.issuperset(self._row[one.end : word.start])
        ]
        return any(
            negation.marks("negation")
            and negation not in plain
            and negation.clause == word.clause
            and 0 <= word.start - negation.end <= reach
            and not any(negation.end <= one.start and one.end <= word.start for one in taken)
            for negation in self._mentions
        )

    def _strength(self, reading: Reading) -> Strength:
        """What markers before the word, in its sentence, make of it.

        "Likeliest" and "slight" hold for the next word about the attribute, "aside" for the rest of the sentence.
        """
        word, before = reading.mention, self._before(reading.mention)
        if reading.strength == "weak" or any(mention.marks("aside") for mention in before):
            return "weak"
        ends = (one.mention.end for one in self._about(reading.attribute))
        earlier = max((end for end in ends if end <= word.start), default=0)
        near = [mention for mention in before if mention.start >= earlier]
        if any(mention.marks("likeliest") for mention in near):
            return "likeliest"
        return "slight" if any(one.marks("slight") and one.clause == word.clause for one in near) else "plain"

    def _listed_with(self, reading: Reading) -> list[Reading]:
        """The reading and those listed after it; commas alone make a list only where an "or" follows."""
        listed, gaps = [reading], []
        for other in self._named:
            if other.mention.start < listed[-1].mention.end:
                continue
            gap = self._row[listed[-1].mention.end : other.mention.start]
            if other.attribute != reading.attribute or not gap or not _LISTING.issuperset(gap):
                break
            gaps.append(gap)
            listed.append(other)
        if not any(_ALTERNATIVE.intersection(gap) for gap in gaps):
            gaps = list(takewhile(lambda gap: COMMA not in gap, gaps))
        return listed[: len(gaps) + 1]

    def _nearest(self, at: int) -> int | None:
        """The place of the noun that goes with the word at a place."""
        word, distances = self._mentions[at], [(inf, -1)]
        for other in range(max(at - _AROUND, 0), min(at + _AROUND + 1, len(self._mentions))):
            noun = self._mentions[other]
            if other != at and noun.sentence == word.sentence and _classes(word, noun):
                distances.append((_distance(self._between(at, other), self._language, other < at), other))
        distance, nearest = min(distances)
        return nearest if distance < inf else None

    def _beside(self, at: int, nouns: Mapping[int, int]) -> dict[str, str]:
        """Attribute -> class that a word names beside its noun; `nouns` has the place of the noun of each word's place.

        Nouns joined to that one share its word: "pitch and volume are moderate", 语速、音量适中.
        """
        word, noun = self._mentions[at], nouns[at]
        named, step = _classes(word, self._mentions[noun]), -1 if noun < at else 1
        while 0 <= noun + step < len(self._mentions):
            gap, noun = self._between(noun, noun + step), noun + step
            joined = gap and _JOINING[self._language].issuperset(gap) and self._mentions[noun].meaning.topics
            if not joined or noun in nouns.values():
                break
            named |= _classes(word, self._mentions[noun])
        return named

    def _between(self, one: int, other: int) -> Sequence[str]:
        """The units between two known phrases, by their places."""
        first, second = sorted((one, other))
        return self._row[self._mentions[first].end : self._mentions[second].start]


def _classes(word: Mention, noun: Mention) -> dict[str, str]:
    """Attribute -> class that `word` names beside `noun`, if any; groups of a later file have priority."""
    near = word.meaning.near
    return {topic[0]: near[topic] for topic in noun.meaning.topics if topic in near}


def _distance(gap: Sequence[str], language: Language, noun_first: bool) -> float:
    """How far a word is from a noun by the units between them; infinite where they do not belong together."""
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
        return 0.1 * len(gap) + 0.5 * gap.count("、") if COMMA not in gap else inf
    if gap and gap[0] == "的":
        return 0.03 + 0.02 * size if not commas and size <= 6 else inf
    return 0.5 + 0.1 * size if not commas and size <= 2 else inf
