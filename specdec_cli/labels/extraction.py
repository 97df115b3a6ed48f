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


@dataclass(frozen=True, slots=True)
class _Caption:
    """A caption's units, the known phrases in it, and everything that they name, denied or not."""

    row: Sequence[str]
    mentions: Sequence[Mention]
    readings: Sequence[Reading]

    def before(self, word: Mention) -> list[Mention]:
        """The known phrases that stand before a word in its sentence."""
        return [one for one in self.mentions if one.sentence == word.sentence and one.end <= word.start]

    def strength(self, reading: Reading) -> Strength:
        """What markers before the word, in its sentence, make of it.

        "Likeliest" and "slight" hold for the next word about the attribute, "aside" for the rest of the sentence.
        """
        word, before = reading.mention, self.before(reading.mention)
        if reading.strength == "weak" or any(mention.marks("aside") for mention in before):
            return "weak"
        ends = [one.mention.end for one in self.readings if one.attribute == reading.attribute]
        earlier = max((end for end in ends if end <= word.start), default=0)
        near = [mention for mention in before if mention.start >= earlier]
        if any(mention.marks("likeliest") for mention in near):
            return "likeliest"
        return "slight" if any(one.marks("slight") and one.clause == word.clause for one in near) else "plain"

    def listed_with(self, reading: Reading) -> list[Reading]:
        """The reading and those listed after it; commas alone make a list only where an "or" follows."""
        listed, gaps = [reading], []
        for other in self.readings:
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


class Reader:
    """Reads captions of one language, by the rules of each attribute."""

    def __init__(self, vocabulary: Vocabulary, rules: Mapping[str, Attribute], language: Language) -> None:
        self.vocabulary = vocabulary
        self._rules = rules
        self._language: Language = language

    def read(self, text: str) -> list[Reading]:
        """All classes that the caption names, negated words left out or turned round."""
        row = units(text)[:LONGEST]
        quoted = quotations(text)
        every = self.vocabulary.mentions(row)
        outside = [one for one in every if not any(start <= one.start and one.end <= end for start, end in quoted)]
        mentions = outside if any(mention.meaning.speaks for mention in outside) else every
        caption = _Caption(row, mentions, _readings(row, mentions, self._language))
        denied, kept = self._denied(caption), []
        for reading in caption.readings:
            negated = self._rules[reading.attribute].negated
            class_ = negated.get(reading.class_) if reading in denied else reading.class_
            if class_ is not None:
                kept.append(replace(reading, class_=class_, strength=caption.strength(reading)))
        return kept + self._missing(caption)

    def _denied(self, caption: _Caption) -> set[Reading]:
        """Readings that a negation reaches, with the rest of the list that they begin ("no anger, fear or joy")."""
        denied = set()
        for reading in caption.readings:
            yields = reading.class_ in self._rules[reading.attribute].yields
            if not yields and any(mention.marks("denial") for mention in caption.before(reading.mention)):
                denied.add(reading)
            negated = self._negated(reading.attribute, reading.mention, caption, REACH[self._language])
            if reading.strength == "plain" and negated:
                denied.update(caption.listed_with(reading))
        return denied

    def _missing(self, caption: _Caption) -> list[Reading]:
        """What "no pauses" names: a negated noun with no word about it in its clause."""
        return [
            Reading(name, absent, "plain", noun)
            for noun in caption.mentions
            for name in noun.meaning.deniable
            if (absent := self._rules[name].absent)
            and not any(one.attribute == name and one.mention.clause == noun.clause for one in caption.readings)
            and self._negated(name, noun, caption, NOUN_REACH[self._language])
        ]

    def _negated(self, attribute: str, word: Mention, caption: _Caption, reach: int) -> bool:
        """Whether a negation of the same clause reaches a word about `attribute`.

        It must be near enough, and nothing that it denies already may stand between: no other reading, and no noun
        of another attribute that "no" makes sense with ("no pauses in her fast speech"), unless the two are listed
        ("no pauses or emotion").
        """
        # "little" in "little inflection" has named its class, and denies nothing more
        plain = [one.mention for one in caption.readings if one.strength == "plain"]
        taken = plain + [
            one
            for one in caption.mentions
            if one.meaning.deniable - {attribute} and not _LISTING.issuperset(caption.row[one.end : word.start])
        ]
        return any(
            negation.marks("negation")
            and negation not in plain
            and negation.clause == word.clause
            and 0 <= word.start - negation.end <= reach
            and not any(negation.end <= one.start and one.end <= word.start for one in taken)
            for negation in caption.mentions
        )


def _readings(row: Sequence[str], mentions: Sequence[Mention], language: Language) -> list[Reading]:
    """Everything that words name, beside their noun or, where that gives nothing, by themselves; in order."""
    bound = bind(row, mentions, language)
    found = []
    for index, mention in enumerate(mentions):
        alone = bound.get(index, mention.meaning.alone)
        weak = {} if index in bound else mention.meaning.weak
        found += [Reading(name, class_, "plain", mention) for name, class_ in alone.items()]
        found += [Reading(name, class_, "weak", mention) for name, class_ in weak.items()]
    return found
