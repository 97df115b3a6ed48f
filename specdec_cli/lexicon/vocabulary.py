"""Every phrase of a language with what it may mean, from one file or two on top of each other, and finding them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specdec_cli.lexicon.layout import Attribute, LexiconFile, Words
from specdec_cli.lexicon.patterns import PhraseFinder
from specdec_cli.lexicon.units import COMMA, ENDS, units
from specdec_cli.prompts import Language

Topic = tuple[str, int]
"""Attribute, and the number of one of its `near` groups."""


@dataclass(slots=True)
class Meaning:
    """What a phrase may mean, by the part that it plays.

    Attributes:
        markers: names of the marker lists that it stands in.
        topics: the groups whose `about` it stands in.
        deniable: attributes of which it is the own noun, so that its negation says a class ("no pauses").
        near: group -> class that it says beside a noun of that group.
        alone, weak: attribute -> class that it says by itself.
    """

    markers: set[str] = field(default_factory=set)
    topics: list[Topic] = field(default_factory=list)
    deniable: set[str] = field(default_factory=set)
    near: dict[Topic, str] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)
    weak: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mention:
    """A known phrase in a row of units.

    Attributes:
        start, end: its place, in units, end not included.
        meaning: what it may mean.
        sentence: number of its sentence; words like "but" begin a new one too.
        clause: number of its clause; commas begin a new one too.
    """

    start: int
    end: int
    meaning: Meaning
    sentence: int
    clause: int

    def marks(self, marker: str) -> bool:
        """Whether it stands in this list of markers."""
        return marker in self.meaning.markers


class Vocabulary:
    """The phrases of one language.

    Args:
        files: lexicon files, later ones over earlier ones.
        language: which part of them.
    """

    def __init__(self, files: Sequence[LexiconFile], language: Language) -> None:
        self._meanings: dict[str, Meaning] = {}
        self._spelling: dict[tuple[str, ...], str] = {}
        self._groups = 0
        for file in files:
            for name, attribute in file.attributes.items():
                self._add_attribute(name, attribute, language)
            for marker, phrases in getattr(file.markers, language):
                for phrase in phrases:
                    self._meaning(phrase).markers.add(marker)
        self._finder = PhraseFinder(list(self._meanings))

    def mentions(self, row: Sequence[str]) -> list[Mention]:
        """The known phrases in a row of units, in order, none over another."""
        found: list[Mention] = []
        sentence = clause = place = 0
        for start, end, phrase in self._finder.find(row):
            meaning = self._meanings[phrase]
            between = row[place:start]
            ended = any(unit in ENDS for unit in between) or "breaks" in meaning.markers
            sentence += ended
            clause += ended or COMMA in between
            place = end
            if "nothing" not in meaning.markers:
                found.append(Mention(start, end, meaning, sentence, clause))
        return found

    def _meaning(self, phrase: str) -> Meaning:
        # phrases that differ in case, width or hyphens only are one phrase
        key = tuple(unit + "*" * part.endswith("*") for part in phrase.split() for unit in units(part) or [part])
        return self._meanings.setdefault(self._spelling.setdefault(key, phrase), Meaning())

    def _add_attribute(self, name: str, attribute: Attribute, language: Language) -> None:
        words = getattr(attribute, language)
        for index, group in enumerate(words.near):
            topic = (name, self._groups)
            self._groups += 1
            for phrase in group.about:
                meaning = self._meaning(phrase)
                meaning.topics.insert(0, topic)  # a later file's group is asked first
                if index == 0 and attribute.absent is not None:
                    meaning.deniable.add(name)
            for class_, phrase in _phrases(group.words):
                self._meaning(phrase).near[topic] = class_
        for class_, phrase in _phrases(words.alone):
            self._meaning(phrase).alone[name] = class_
        for class_, phrase in _phrases(words.weak):
            self._meaning(phrase).weak[name] = class_


def _phrases(words: Words) -> Iterator[tuple[str, str]]:
    for class_, phrases in words.items():
        for phrase in phrases:
            yield class_, phrase
