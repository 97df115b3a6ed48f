"""What a caption means, word by word: the classes that are not negated, and how strongly each is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from specdec_cli.labels.binding import bind
from specdec_cli.labels.lexicon_file import Attribute
from specdec_cli.labels.units import COMMA, quotations, units
from specdec_cli.labels.vocabulary import Feeling, Mention, Vocabulary
from specdec_cli.prompts import Language

Strength = Literal["likeliest", "plain", "slight", "weak"]
"""From the strongest: called likeliest or concluded last; named; a hint of it; named beside the point."""

UNCLASSED: Final = ""
"""In place of a class, for a feeling that is none of the attribute's classes ("determined")."""
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
    """A phrase that names a class of an attribute.

    `since` is the first unit after what stands before it: a word with another meaning, or a mark.
    """

    attribute: str
    class_: str
    strength: Strength
    mention: Mention
    since: int
    feeling: Feeling | None = None  # where the word stands in the attribute's wheel


@dataclass(frozen=True, slots=True)
class _Caption:
    """A caption's units, the known phrases in it, and everything that they name, denied or not."""

    row: Sequence[str]
    mentions: Sequence[Mention]
    since: Sequence[int]  # of the mentions, as of a `Reading`
    readings: Sequence[Reading]


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
        since = _since(row, mentions)
        caption = _Caption(row, mentions, since, _readings(row, mentions, since, self._language))
        denied = self._denied(caption)
        kept = []
        for reading in caption.readings:
            strength = _strength(reading, caption)
            if reading not in denied:
                kept.append(replace(reading, strength=strength))
            elif opposite := self._rules[reading.attribute].negated.get(reading.class_):
                kept.append(replace(reading, strength=strength, class_=opposite))
        return kept + self._missing(caption)

    def _denied(self, caption: _Caption) -> set[Reading]:
        """Readings that a negation reaches, with the rest of the list that they begin ("no anger, fear or joy")."""
        denied = {
            reading
            for reading in caption.readings
            if reading.class_ not in self._rules[reading.attribute].yields
            and any(mention.marks("denial") for mention in _before(reading, caption))
        }
        for reading in caption.readings:
            negated = self._negated(reading.attribute, reading.mention, caption, REACH[self._language])
            if reading.strength == "plain" and negated:
                denied.update(_listed_with(reading, caption))
        return denied

    def _missing(self, caption: _Caption) -> list[Reading]:
        """What "no pauses" names: a negated noun with no word about it in its clause."""
        found = []
        for mention, since in zip(caption.mentions, caption.since, strict=True):
            for name in mention.meaning.deniable:
                spoken = any(one.attribute == name and one.mention.clause == mention.clause for one in caption.readings)
                absent = self._rules[name].absent
                if absent and not spoken and self._negated(name, mention, caption, NOUN_REACH[self._language]):
                    found.append(Reading(name, absent, "plain", mention, since))
        return found

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


def _since(row: Sequence[str], mentions: Sequence[Mention]) -> list[int]:
    found, since = [], 0
    for mention in mentions:
        marks = (at + 1 for at in range(mention.start - 1, since - 1, -1) if not row[at].isalnum())
        found.append(next(marks, since))
        if mention.meaning.speaks:
            since = mention.end
    return found


def _readings(
    row: Sequence[str], mentions: Sequence[Mention], since: Sequence[int], language: Language
) -> list[Reading]:
    """Everything that words name, beside their noun or, where that gives nothing, by themselves; in order."""
    bound = bind(row, mentions, language)
    found = []
    for index, place in enumerate(zip(mentions, since, strict=True)):
        if index in bound:
            found += [Reading(name, class_, "plain", *place) for name, class_ in bound[index].items()]
            continue
        meaning = mentions[index].meaning
        feeling, alone = meaning.feeling, dict(meaning.alone)
        if feeling is not None:
            alone.setdefault(feeling.attribute, UNCLASSED)
        for name, class_ in alone.items():
            known = feeling if feeling is not None and feeling.attribute == name else None
            found.append(Reading(name, class_, "plain", *place, known))
        found += [Reading(name, class_, "weak", *place) for name, class_ in meaning.weak.items()]
    return found


def _strength(reading: Reading, caption: _Caption) -> Strength:
    """What markers before the word, in its sentence, make of it.

    "Likeliest" and "slight" hold for the next word about the attribute, "aside" for the rest of the sentence.
    """
    word, before = reading.mention, _before(reading, caption)
    if reading.strength == "weak" or any(mention.marks("aside") for mention in before):
        return "weak"
    ends = [one.mention.end for one in caption.readings if one.attribute == reading.attribute]
    earlier = max((end for end in ends if end <= word.start), default=0)
    near = [mention for mention in before if mention.start >= earlier]
    if any(mention.marks("likeliest") for mention in near):
        return "likeliest"
    slight = any(mention.marks("slight") and mention.clause == word.clause for mention in near)
    return "slight" if slight else "plain"


def _before(reading: Reading, caption: _Caption) -> list[Mention]:
    """The known phrases that stand before a word in its sentence."""
    word = reading.mention
    return [one for one in caption.mentions if one.sentence == word.sentence and one.end <= word.start]


def _listed_with(reading: Reading, caption: _Caption) -> list[Reading]:
    """The reading and those listed after it; commas alone make a list only where an "or" follows."""
    listed, gaps = [reading], []
    for other in caption.readings:
        if other.mention.start < listed[-1].mention.end:
            continue
        gap = caption.row[listed[-1].mention.end : other.mention.start]
        if other.attribute != reading.attribute or not gap or not _LISTING.issuperset(gap):
            break
        gaps.append(gap)
        listed.append(other)
    while gaps and any(COMMA in gap for gap in gaps) and not any(_ALTERNATIVE.intersection(gap) for gap in gaps):
        gaps.pop()
        listed.pop()
    return listed
