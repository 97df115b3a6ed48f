"""The phrases of a language with what they may mean, from one file or two on top of each other, and finding them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from specdec_cli.labels.lexicon_file import Attribute, LexiconFile, Words
from specdec_cli.labels.units import COMMA, ENDS, GAP, folded, units
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
    word: str  # the normal form: "angry" for "angrily" and "anger"


@dataclass(slots=True, eq=False)
class Meaning:
    """What a phrase may mean, by the part that it plays."""

    markers: set[str] = field(default_factory=set)  # the marker lists that it stands in
    topics: list[Topic] = field(default_factory=list)  # the groups whose `about` it stands in
    deniable: set[str] = field(default_factory=set)  # attributes that "no" denies with it: "no pauses"
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


@dataclass(slots=True)
class _Node:
    """A place in the tree of phrases: what may follow (a unit, `beginning*` of one, or `...`), and what ends here."""

    following: dict[str, _Node] = field(default_factory=dict)
    meaning: Meaning | None = None


class Vocabulary:
    """The phrases of one language in lexicon files, later ones over earlier ones.

    Attributes:
        groups: every form of a wheel's word, as a table may write it -> its group.
        first: attribute and class -> the first word of the wheel that names it.
    """

    def __init__(self, files: Sequence[LexiconFile], language: Language) -> None:
        self.groups: dict[str, str] = {}
        self.first: dict[tuple[str, str], str] = {}
        self._meanings: dict[str, Meaning] = {}
        self._root = _Node()
        self._near_groups = 0
        for file in files:
            for name, attribute in file.attributes.items():
                self._add_attribute(name, attribute, language)
            for marker, phrases in getattr(file.markers, language):
                for phrase in phrases:
                    self._meaning(phrase).markers.add(marker)

    def mentions(self, row: Sequence[str]) -> list[Mention]:
        """The longest known phrase at each place of a row of units, left to right, none over another."""
        found: list[Mention] = []
        sentence = clause = place = at = 0
        while at < len(row):
            end, meaning = _longest(self._root, row, at)
            if meaning is None:
                at += 1
                continue
            between = row[place:at]
            ended = any(unit in ENDS for unit in between) or "breaks" in meaning.markers
            sentence += ended
            clause += ended or COMMA in between
            if "nothing" not in meaning.markers:
                found.append(Mention(at, end, meaning, sentence, clause))
            at = place = end
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
        """That of a phrase; those that differ in case, width or hyphens only are one phrase."""
        node = self._root
        for part in phrase.split():
            steps = [GAP] if part == GAP else units(part)
            if steps and part.endswith("*"):
                steps[-1] += "*"
            for step in steps:
                node = node.following.setdefault(step, _Node())
        if node.meaning is None:
            node.meaning = self._meanings[phrase] = Meaning()
        return node.meaning

    def _add_attribute(self, name: str, attribute: Attribute, language: Language) -> None:
        words = getattr(attribute, language)
        for group_name, feelings in attribute.wheel.items():
            for forms in getattr(feelings, language):
                for phrase in forms:
                    meaning = self._meaning(phrase)
                    meaning.feeling = Feeling(name, forms[0].removesuffix("*"))
                    self.groups[folded(phrase)] = group_name
                    if feelings.class_ is not None:
                        meaning.alone[name] = feelings.class_
                        self.first.setdefault((name, feelings.class_), forms[0])
        for index, group in enumerate(words.near):
            topic = (name, self._near_groups)
            self._near_groups += 1
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


def _longest(node: _Node, row: Sequence[str], at: int) -> tuple[int, Meaning | None]:
    """End and meaning of the longest phrase that goes on from `node` with the units from `at` on."""
    best = at, node.meaning
    for step, following in _steps(node, row, at):
        end, meaning = _longest(following, row, step)
        if meaning is not None and (best[1] is None or end > best[0]):
            best = end, meaning
    return best


def _steps(node: _Node, row: Sequence[str], at: int) -> list[tuple[int, _Node]]:
    """Places and nodes that one more part of a phrase leads to; literal words first."""
    steps = []
    if at < len(row):
        beginnings = (f"{row[at][:length]}*" for length in range(len(row[at]), 0, -1))
        steps += [(at + 1, node.following[key]) for key in (row[at], *beginnings) if key in node.following]
    if GAP in node.following:
        for end in range(at, min(at + GAP_UNITS, len(row)) + 1):
            steps.append((end, node.following[GAP]))
            if end < len(row) and (row[end] in ENDS or row[end] == COMMA):
                break
    return steps
