"""What a caption means, word by word: the classes that are not negated, and how strongly each is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Literal

from specdec_cli.labels.binding import bind
from specdec_cli.labels.lexicon_file import Attribute
from specdec_cli.labels.units import COMMA, quotations, units
from specdec_cli.labels.vocabulary import Mention, Vocabulary
from specdec_cli.prompts import Language

Strength = Literal["likeliest", "plain", "slight", "weak"]
"""From the strongest: called likeliest or concluded last; named; a hint of it; named beside the point."""

LONGEST: Final = 2000
"""Units of a text that are read; a caption has a few dozen."""
REACH: Final[Mapping[Language, int]] = {"zh": 7, "en": 5}
"""How many units may stand between a negation and the word that it negates."""
NOUN_REACH: Final[Mapping[Language, int]] = {"zh": 7, "en": 3}
"""How many may stand between a negation and the noun that it denies: "no particularly strong emotion"."""
_ALTERNATIVE: Final = frozenset(["or", "nor", "或"])
_LISTING: Final = _ALTERNATIVE.union(["and", "a", "an", "any", "the", COMMA, *"、和与及以者也"])


@dataclass(frozen=True, slots=True)
class Reading:
    """A phrase that names a class of an attribute."""

    attribute: str
    class_: str
    strength: Strength
    mention: Mention


def read(text: str, vocabulary: Vocabulary, rules: Mapping[str, Attribute], language: Language) -> list[Reading]:
    """All classes that a caption names by the rules of each attribute, negated words left out or turned round."""
    row = units(text)[:LONGEST]
    quoted = quotations(text)
    every = vocabulary.mentions(row)
    outside = [one for one in every if not any(start <= one.start and one.end <= end for start, end in quoted)]
    mentions = outside if any(mention.meaning.speaks for mention in outside) else every
    bound, named = bind(row, mentions, language), list[Reading]()
    for index, mention in enumerate(mentions):  # beside its noun or, where that gives nothing, by itself
        alone = bound.get(index, mention.meaning.alone)
        weak = {} if index in bound else mention.meaning.weak
        named += [Reading(name, class_, "plain", mention) for name, class_ in alone.items()]
        named += [Reading(name, class_, "weak", mention) for name, class_ in weak.items()]
    return _Caption(row, mentions, named, rules, language).readings()


@dataclass(frozen=True, slots=True)
class _Caption:
    """A caption's units, the known phrases in it, and everything that they name, denied or not."""

    row: Sequence[str]
    mentions: Sequence[Mention]
    named: Sequence[Reading]
    rules: Mapping[str, Attribute]
    language: Language

    def readings(self) -> list[Reading]:
        """What is named and not denied, or turned round by that, and what a negated noun names ("no pauses")."""
        denied = {other for reading in self.named if self._denied(reading) for other in self._listed_with(reading)}
        denied.update(reading for reading in self.named if self._in_denial(reading))
        kept = []
        for reading in self.named:
            opposites = self.rules[reading.attribute].negated
            class_ = opposites.get(reading.class_) if reading in denied else reading.class_
            if class_ is not None:
                kept.append(replace(reading, class_=class_, strength=self._strength(reading)))
        return kept + [
            Reading(name, absent, "plain", noun)
            for noun in self.mentions
            for name in noun.meaning.deniable
            if (absent := self.rules[name].absent)
            and not any(one.attribute == name and one.mention.clause == noun.clause for one in self.named)
            and self._negated(name, noun, NOUN_REACH[self.language])
        ]

    def _denied(self, reading: Reading) -> bool:
        return reading.strength == "plain" and self._negated(reading.attribute, reading.mention, REACH[self.language])

    def _in_denial(self, reading: Reading) -> bool:
        """Whether "no signs of" or the like stands before it in its sentence, which spares a class that yields."""
        yields = reading.class_ in self.rules[reading.attribute].yields
        return not yields and any(mention.marks("denial") for mention in self._before(reading.mention))

    def _negated(self, attribute: str, word: Mention, reach: int) -> bool:
        """Whether a negation of the same clause reaches a word about `attribute`.

        It must be near enough, and nothing that it denies already may stand between: no other reading, and no noun
        of another attribute that "no" makes sense with ("no pauses in her fast speech"), unless the two are listed
        ("no pauses or emotion").
        """
        # "little" in "little inflection" has named its class, and denies nothing more
        plain = [one.mention for one in self.named if one.strength == "plain"]
        taken = plain + [
            one
            for one in self.mentions
            if one.meaning.deniable - {attribute} and not _LISTING.issuperset(self.row[one.end : word.start])
        ]
        return any(
            negation.marks("negation")
            and negation not in plain
            and negation.clause == word.clause
            and 0 <= word.start - negation.end <= reach
            and not any(negation.end <= one.start and one.end <= word.start for one in taken)
            for negation in self.mentions
        )

    def _strength(self, reading: Reading) -> Strength:
        """What markers before the word, in its sentence, make of it.

        "Likeliest" and "slight" hold for the next word about the attribute, "aside" for the rest of the sentence.
        """
        word, before = reading.mention, self._before(reading.mention)
        if reading.strength == "weak" or any(mention.marks("aside") for mention in before):
            return "weak"
        ends = [one.mention.end for one in self.named if one.attribute == reading.attribute]
        earlier = max((end for end in ends if end <= word.start), default=0)
        near = [mention for mention in before if mention.start >= earlier]
        if any(mention.marks("likeliest") for mention in near):
            return "likeliest"
        return "slight" if any(one.marks("slight") and one.clause == word.clause for one in near) else "plain"

    def _before(self, word: Mention) -> list[Mention]:
        """The known phrases that stand before a word in its sentence."""
        return [one for one in self.mentions if one.sentence == word.sentence and one.end <= word.start]

    def _listed_with(self, reading: Reading) -> list[Reading]:
        """The reading and those listed after it; commas alone make a list only where an "or" follows."""
        listed, gaps = [reading], []
        for other in self.named:
            if other.mention.start < listed[-1].mention.end:
                continue
            gap = self.row[listed[-1].mention.end : other.mention.start]
            if other.attribute != reading.attribute or not gap or not _LISTING.issuperset(gap):
                break
            gaps.append(gap)
            listed.append(other)
        if not any(_ALTERNATIVE.intersection(gap) for gap in gaps):
            gaps = list(takewhile(lambda gap: COMMA not in gap, gaps))
        return listed[: len(gaps) + 1]
