"""The phrases of a language with what they may mean, from one file or two on top of each other, and finding them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from specdec_cli.labels.lexicon_file import Attribute, LexiconFile, Words
from specdec_cli.labels.units import COMMA, ENDS, GAP, units
from specdec_cli.prompts import Language

GAP_UNITS: Final = 4
"""Units that `...` may stand for, at most; it never reaches over a punctuation mark."""

_LEAST_BEGINNING: Final = 3
"""Letters of Latin script that determine which phrases may follow; fewer may begin any other word."""

Said = frozenset[tuple[str, str]]
"""(attribute, class) pairs."""
Topic = tuple[str, int]
"""Attribute, and the number of one of its `near` groups."""


class Feeling(NamedTuple):
    """An open word of an attribute's wheel."""

    attribute: str
    group: str
    word: str  # the normal form: "angry" for "angrily" and "anger"


@dataclass(slots=True)
class Meaning:
    """What a phrase may mean, by the part that it plays."""

    markers: set[str] = field(default_factory=set)  # the marker lists that it stands in
    topics: list[Topic] = field(default_factory=list)  # the groups whose `about` it stands in
    deniable: set[str] = field(
        default_factory=set
    )  # attributes whose own noun it is, so that "no pauses" names a class
    near: dict[Topic, str] = field(default_factory=dict)  # group -> class that it names beside a noun of that group
    alone: dict[str, str] = field(default_factory=dict)  # attribute -> class that it names by itself
    weak: dict[str, str] = field(default_factory=dict)
    feeling: Feeling | None = None  # of the wheel

    @property
    def speaks(self) -> bool:
        """Whether it names a class or is a noun that qualities go with."""
        return bool(self.topics or self.near or self.alone or self.weak)

    @property
    def said(self) -> Said:
        """All (attribute, class) pairs that it can name."""
        beside = {(name, class_) for (name, _), class_ in self.near.items()}
        return frozenset(beside.union(self.alone.items(), self.weak.items()))


@dataclass(frozen=True, slots=True)
class Mention:
    """A known phrase in a row of units."""

    start: int
    end: int  # not included
    meaning: Meaning
    sentence: int  # its number; words like "but" begin a new one too
    clause: int  # its number; commas begin a new one too

    def marks(self, marker: str) -> bool:
        """Whether it stands in this list of markers."""
        return marker in self.meaning.markers


class Vocabulary:
    """The phrases of one language in lexicon files, later ones over earlier ones."""

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

    def begun(self, attribute: str, text: str) -> Counter[str]:
        """Classes of an attribute whose phrases begin with `text`, and how many of their phrases do."""
        begin = "".join(units(text))
        if len(begin) < _least(begin):
            return Counter()
        return Counter(
            class_
            for phrase, meaning in self._meanings.items()
            for name, class_ in meaning.said
            if name == attribute and phrase.replace(" ", "").startswith(begin)
        )

    def beginnings(self) -> tuple[dict[str, Said], dict[str, Said]]:
        """Every phrase, and every beginning of one, without spaces -> the (attribute, class) pairs that it comes to.

        A whole phrase names its own. A beginning names none where phrases that begin so differ, or one names no class.
        """
        whole: dict[str, Said] = {}
        begun: dict[str, Said] = {}
        for phrase, meaning in self._meanings.items():
            spelled, _, wild = phrase.replace(" ", "").partition(GAP)
            spelled = spelled.removesuffix("*")
            said = meaning.said if not wild and not meaning.markers and not meaning.topics else frozenset()
            whole[spelled] = said
            for end in range(max(_least(spelled), 2), len(spelled)):
                if begun.setdefault(spelled[:end], said) != said:
                    begun[spelled[:end]] = frozenset()
        return whole, begun

    def _meaning(self, phrase: str) -> Meaning:
        # phrases that differ in case, width or hyphens only are one phrase
        key = tuple(unit + "*" * part.endswith("*") for part in phrase.split() for unit in units(part) or [part])
        return self._meanings.setdefault(self._spelling.setdefault(key, phrase), Meaning())

    def _add_attribute(self, name: str, attribute: Attribute, language: Language) -> None:
        words = getattr(attribute, language)
        for group_name, feelings in attribute.wheel.items():
            for forms in getattr(feelings, language):
                for phrase in forms:
                    meaning = self._meaning(phrase)
                    meaning.feeling = Feeling(name, group_name, forms[0].removesuffix("*"))
                    if feelings.class_ is not None:
                        meaning.alone[name] = feelings.class_
        for index, group in enumerate(words.near):
            topic = (name, self._groups)
            self._groups += 1
            for phrase in group.about:
                meaning = self._meaning(phrase)
                meaning.topics.insert(0, topic)  # a later file's group counts first
                if index == 0 and attribute.absent is not None:
                    meaning.deniable.add(name)
            for meaning, class_ in self._said(group.words):
                meaning.near[topic] = class_
        for meaning, class_ in self._said(words.alone):
            meaning.alone[name] = class_
        for meaning, class_ in self._said(words.weak):
            meaning.weak[name] = class_

    def _said(self, words: Words) -> Iterator[tuple[Meaning, str]]:
        return ((self._meaning(phrase), class_) for class_, phrases in words.items() for phrase in phrases)


def _least(text: str) -> int:
    return _LEAST_BEGINNING if text.isascii() else 1


@dataclass(slots=True)
class _Node:
    """What may follow; `phrase` is set where a phrase ends."""

    words: dict[str, _Node] = field(default_factory=dict)
    stems: dict[str, _Node] = field(default_factory=dict)
    gap: _Node | None = None
    phrase: str | None = None


class PhraseFinder:
    """Finds known phrases.

    A phrase is a row of words. `happi*` stands for every word that begins so, and `...` for up to four words.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._root = _Node()
        for phrase in phrases:
            self._add(phrase)

    def find(self, row: Sequence[str]) -> list[tuple[int, int, str]]:
        """Start, end and phrase of the longest phrase at each place, left to right, none over another."""
        found = []
        at = 0
        while at < len(row):
            end, phrase = self._longest(self._root, row, at)
            if phrase is None:
                at += 1
            else:
                found.append((at, end, phrase))
                at = end
        return found

    def _add(self, phrase: str) -> None:
        node = self._root
        for part in phrase.split():
            if part == GAP:
                node.gap = node.gap or _Node()
                node = node.gap
                continue
            *whole, last = units(part)
            for unit in whole:
                node = node.words.setdefault(unit, _Node())
            kind = node.stems if part.endswith("*") else node.words
            node = kind.setdefault(last, _Node())
        node.phrase = phrase

    def _longest(self, node: _Node, row: Sequence[str], at: int) -> tuple[int, str | None]:
        best: tuple[int, str | None] = (at, node.phrase)
        for step, following in _steps(node, row, at):
            end, phrase = self._longest(following, row, step)
            if phrase is not None and (best[1] is None or end > best[0]):
                best = (end, phrase)
        return best


def _steps(node: _Node, row: Sequence[str], at: int) -> list[tuple[int, _Node]]:
    """Places and nodes that one more part of a phrase leads to; literal words first."""
    steps = []
    if at < len(row):
        if row[at] in node.words:
            steps.append((at + 1, node.words[row[at]]))
        steps += [(at + 1, following) for stem, following in node.stems.items() if row[at].startswith(stem)]
    if node.gap is not None:
        for end in range(at, min(at + GAP_UNITS, len(row)) + 1):
            steps.append((end, node.gap))
            if end < len(row) and (row[end] in ENDS or row[end] == COMMA):
                break
    return steps
