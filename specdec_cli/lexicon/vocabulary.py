"""Every phrase of a language with what it may mean, put together from one file or from two on top of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specdec_cli.lexicon.layout import Attribute, LexiconFile, Words
from specdec_cli.lexicon.patterns import PhraseFinder
from specdec_cli.lexicon.units import units
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


class Vocabulary:
    """The phrases of one language.

    Args:
        files: lexicon files, later ones over earlier ones.
        language: which part of them.
    """

    def __init__(self, files: Sequence[LexiconFile], language: Language) -> None:
        self.meanings: dict[str, Meaning] = {}
        self._spelling: dict[tuple[str, ...], str] = {}
        self._groups = 0
        for file in files:
            for name, attribute in file.attributes.items():
                self._add_attribute(name, attribute, language)
            for marker, phrases in getattr(file.markers, language):
                for phrase in phrases:
                    self._meaning(phrase).markers.add(marker)
        self.finder = PhraseFinder(list(self.meanings))

    def _meaning(self, phrase: str) -> Meaning:
        # phrases that differ in case, width or hyphens only are one phrase
        key = tuple(unit + "*" * part.endswith("*") for part in phrase.split() for unit in units(part) or [part])
        return self.meanings.setdefault(self._spelling.setdefault(key, phrase), Meaning())

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
