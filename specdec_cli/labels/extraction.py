"""What a caption means, word by word: the classes that are not negated, and how strongly each is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from specdec_cli.labels.binding import bind
from specdec_cli.labels.lexicon_file import LexiconFile
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
class Rules:
    """What a lexicon holds about the classes of each attribute besides their words."""

    negated: Mapping[str, Mapping[str, str]]  # class -> class that its negation names; others name nothing when negated
    absent: Mapping[str, str]  # class that "no ..." names with the attribute's own noun ("no pauses")
    yields: Mapping[str, frozenset[str]]  # classes that give way to any other

    @classmethod
    def of(cls, files: Sequence[LexiconFile]) -> Rules:
        """The rules of lexicon files, later ones over earlier ones."""
        negated: dict[str, Mapping[str, str]] = {}
        absent: dict[str, str] = {}
        yields: dict[str, frozenset[str]] = {}
        for file in files:
            for name, attribute in file.attributes.items():
                negated[name] = {**negated.get(name, {}), **attribute.negated}
                yields[name] = yields.get(name, frozenset()) | frozenset(attribute.yields)
                if attribute.absent is not None:
                    absent[name] = attribute.absent
        return cls(negated, absent, yields)


@dataclass(frozen=True, slots=True)
class Reading:
    """A word that names a class of an attribute; its place in units, and the number of its clause.

    `since` is the first unit after what stands before it: a word with another meaning, or a mark.
    """

    attribute: str
    class_: str
    strength: Strength
    start: int
    end: int
    clause: int
    since: int
    feeling: Feeling | None = None  # where the word stands in the attribute's wheel


@dataclass(frozen=True, slots=True)
class _Caption:
    """A caption's units, the known phrases in it, and everything that they name, denied or not."""

    row: Sequence[str]
    mentions: Sequence[Mention]
    places: Sequence[tuple[int, int, int, int]]  # of the mentions, see `_places`
    readings: Sequence[Reading]


class Reader:
    """Reads captions of one language."""

    def __init__(self, vocabulary: Vocabulary, rules: Rules, language: Language) -> None:
        self.vocabulary = vocabulary
        self._rules = rules
        self._language: Language = language

    def read(self, text: str) -> list[Reading]:
        """All classes that the caption names, negated words left out or turned round."""
        row = units(text)[:LONGEST]
        spoken = quotations(text)
        every = self.vocabulary.mentions(row)
        outside = [mention for mention in every if not _within(mention, spoken)]
        mentions = outside if any(mention.meaning.speaks for mention in outside) else every
        places = _places(row, mentions)
        readings = _readings(mentions, places, bind(row, mentions, self._language))
        caption = _Caption(row, mentions, places, readings)
        denied = self._denied(caption)
        kept = []
        for reading in caption.readings:
            strength = reading.strength if reading.strength == "weak" else _strength(reading, caption)
            if reading not in denied:
                kept.append(replace(reading, strength=strength))
            elif opposite := self._rules.negated[reading.attribute].get(reading.class_):
                kept.append(replace(reading, strength=strength, class_=opposite))
        return kept + self._missing(caption)

    def _denied(self, caption: _Caption) -> set[Reading]:
        """Readings that a negation reaches, with the rest of the list that they begin ("no anger, fear or joy")."""
        denied = {
            reading
            for reading in caption.readings
            if reading.class_ not in self._rules.yields[reading.attribute]
            and any(mention.marks("denial") for mention in _before(reading, caption))
        }
        for reading in caption.readings:
            negated = self._negated(reading.attribute, reading.start, reading.clause, caption, REACH[self._language])
            if reading.strength == "plain" and negated:
                denied.update(_listed_with(reading, caption))
        return denied

    def _missing(self, caption: _Caption) -> list[Reading]:
        """What "no pauses" names: a negated noun with no word about it in its clause."""
        found = []
        for mention, place in zip(caption.mentions, caption.places, strict=True):
            for name in mention.meaning.deniable:
                spoken = any(one.attribute == name and one.clause == mention.clause for one in caption.readings)
                reach = NOUN_REACH[self._language]
                if not spoken and self._negated(name, mention.start, mention.clause, caption, reach):
                    found.append(Reading(name, self._rules.absent[name], "plain", *place))
        return found

    def _negated(self, attribute: str, start: int, clause: int, caption: _Caption, reach: int) -> bool:
        """Whether a negation of the same clause reaches the word about `attribute` at `start`.

        It must be near enough, and nothing that it denies already may stand between: no other reading, and no noun
        of another attribute that "no" makes sense with ("no pauses in her fast speech"), unless the two are listed
        ("no pauses or emotion").
        """
        plain = [one for one in caption.readings if one.strength == "plain"]
        # "little" in "little inflection" has named its class, and denies nothing more
        spent = {one.start for one in plain}
        taken = [(one.start, one.end) for one in plain]
        taken += [
            (one.start, one.end)
            for one in caption.mentions
            if one.meaning.deniable - {attribute} and not _LISTING.issuperset(caption.row[one.end : start])
        ]
        return any(
            mention.marks("negation")
            and mention.start not in spent
            and mention.clause == clause
            and 0 <= start - mention.end <= reach
            and not any(mention.end <= first and last <= start for first, last in taken)
            for mention in caption.mentions
        )


def _places(row: Sequence[str], mentions: Sequence[Mention]) -> list[tuple[int, int, int, int]]:
    """Start, end, clause and `since` of each mention, as a `Reading` has them."""
    places, since = [], 0
    for mention in mentions:
        marks = (at + 1 for at in range(mention.start - 1, since - 1, -1) if not row[at].isalnum())
        places.append((mention.start, mention.end, mention.clause, next(marks, since)))
        if mention.meaning.speaks:
            since = mention.end
    return places


def _readings(
    mentions: Sequence[Mention],
    places: Sequence[tuple[int, int, int, int]],
    bound: Sequence[tuple[int, int, dict[str, str]]],
) -> list[Reading]:
    """Everything that words name, beside their noun or, where that gives nothing, by themselves; in order."""
    beside: dict[int, dict[str, str]] = {}
    for word, _, classes in bound:
        beside[word] = {**beside.get(word, {}), **classes}
    found = []
    for index, mention in enumerate(mentions):
        place = places[index]
        if index in beside:
            found += [Reading(name, class_, "plain", *place) for name, class_ in beside[index].items()]
        else:
            feeling = mention.meaning.feeling
            alone = dict(mention.meaning.alone)
            if feeling is not None:
                alone.setdefault(feeling.attribute, UNCLASSED)
            for name, class_ in alone.items():
                known = feeling if feeling is not None and feeling.attribute == name else None
                found.append(Reading(name, class_, "plain", *place, known))
            found += [Reading(name, class_, "weak", *place) for name, class_ in mention.meaning.weak.items()]
    return found


def _strength(reading: Reading, caption: _Caption) -> Strength:
    """What markers before the word, in its sentence, make of it.

    "Likeliest" and "slight" hold for the next word about the attribute, "aside" for the rest of the sentence.
    """
    earlier = [one.end for one in caption.readings if one.attribute == reading.attribute and one.end <= reading.start]
    before = _before(reading, caption)
    if any(mention.marks("aside") for mention in before):
        return "weak"
    near = [mention for mention in before if mention.start >= max(earlier, default=0)]
    if any(mention.marks("likeliest") for mention in near):
        return "likeliest"
    slight = any(mention.marks("slight") and mention.clause == reading.clause for mention in near)
    return "slight" if slight else "plain"


def _before(reading: Reading, caption: _Caption) -> list[Mention]:
    """The known phrases that stand before a word in its sentence."""
    sentence = next(mention.sentence for mention in caption.mentions if mention.start == reading.start)
    return [one for one in caption.mentions if one.sentence == sentence and one.end <= reading.start]


def _within(mention: Mention, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= mention.start and mention.end <= end for start, end in spans)


def _listed_with(reading: Reading, caption: _Caption) -> list[Reading]:
    """The reading and those listed after it; commas alone make a list only where an "or" follows."""
    listed, gaps = [reading], []
    for other in caption.readings:
        if other.start < listed[-1].end:
            continue
        gap = caption.row[listed[-1].end : other.start]
        if other.attribute != reading.attribute or not gap or not _LISTING.issuperset(gap):
            break
        gaps.append(gap)
        listed.append(other)
    while gaps and any(COMMA in gap for gap in gaps) and not any(_ALTERNATIVE.intersection(gap) for gap in gaps):
        gaps.pop()
        listed.pop()
    return listed
