"""The phrases of a language with what they may mean, from one file or two on top of each other, and finding them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from specdec_cli.labels.lexicon_file import Attribute, LexiconFile, Words
from specdec_cli.labels.units import COMMA, ENDS, GAP, folded, units
from specdec_cli.prompts import Language

GAP_UNITS: Final = 4
"""Units that `...` may stand for, at most; it never reaches over a punctuation mark."""
UNCLASSED: Final = ""
"""In place of a class, for a feeling that is none of the attribute's classes ("determined")."""

Said = frozenset[tuple[str, str]]
"""(attribute, class) pairs."""
Topic = tuple[str, int]
"""Attribute, and the number of one of its `near` groups."""


@dataclass(slots=True, eq=False)
class Meaning:
    """What a phrase may mean, by the part that it plays."""

    markers: set[str] = field(default_factory=set)  # the marker lists that it stands in
    topics: list[Topic] = field(default_factory=list)  # the groups whose `about` it stands in
    deniable: set[str] = field(default_factory=set)  # attributes that "no" denies with it: "no pauses"
    near: dict[Topic, str] = field(default_factory=dict)  # group -> class that it names beside a noun of that group
    alone: dict[str, str] = field(default_factory=dict)  # attribute -> class that it names by itself
    weak: dict[str, str] = field(default_factory=dict)
    feelings: dict[str, str] = field(default_factory=dict)  # attribute -> normal form in its wheel: "angry" for "anger"

    @property
    def said(self) -> Said:
        """All (attribute, class) pairs that it can name."""
        beside = {(name, class_) for (name, _), class_ in self.near.items()}
        return frozenset(pair for pair in beside.union(self.alone.items(), self.weak.items()) if pair[1])

    @property
    def speaks(self) -> bool:
        """Whether it names a class or is a noun that qualities go with."""
        return bool(self.topics or self.near or self.weak or any(self.alone.values()))


@dataclass(frozen=True, slots=True)
class Mention:
    """A known phrase in a row of units."""

    start: int
    end: int  # not included
    meaning: Meaning
    sentence: int  # its number; words like "but" begin a new one too
    clause: int  # its number; commas begin a new one too
    since: int  # the first unit after what stands before it: a word that names something, or a mark

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
        meanings: of every phrase.
        groups: every form of a wheel's word, as a table may write it -> its group.
        first: attribute and class -> the first word of the wheel that names it.
    """

    def __init__(self, files: Sequence[LexiconFile], language: Language) -> None:
        self.meanings: dict[str, Meaning] = {}
        self.groups: dict[str, str] = {}
        self.first: dict[tuple[str, str], str] = {}
        self._root = _Node()
        self._near_groups = 0
        for file in files:
            for name, attribute in file.attributes.items():
                self._add_wheel(name, attribute, language)
                self._add_words(name, attribute, language)
            for marker, phrases in file.markers.get(language, {}).items():
                for phrase in phrases:
                    self._meaning(phrase).markers.add(marker)

    def mentions(self, row: Sequence[str]) -> list[Mention]:
        """The longest known phrase at each place of a row of units, left to right, none over another."""
        found: list[Mention] = []
        sentence = clause = place = since = at = 0
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
                since = max([since, *(mark + 1 for mark in range(since, at) if not row[mark].isalnum())])
                found.append(Mention(at, end, meaning, sentence, clause, since))
                since = end if meaning.speaks else since
            at = place = end
        return found

    def begun(self, attribute: str, text: str) -> Counter[str]:
        """Classes of an attribute whose phrases begin with `text`, and how many of their phrases do."""
        begin = "".join(units(text))
        return Counter(
            class_
            for phrase, meaning in self.meanings.items()
            if len(begin) >= fewest(begin) and phrase.replace(" ", "").startswith(begin)
            for name, class_ in meaning.said
            if name == attribute
        )

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
            node.meaning = self.meanings[phrase] = Meaning()
        return node.meaning

    def _add_wheel(self, name: str, attribute: Attribute, language: Language) -> None:
        for group_name, feelings in attribute.wheel.items():
            for forms in getattr(feelings, language):
                if feelings.class_ is not None:
                    self.first.setdefault((name, feelings.class_), forms[0])
                for phrase in forms:
                    meaning = self._meaning(phrase)
                    meaning.feelings[name] = forms[0].removesuffix("*")
                    meaning.alone[name] = feelings.class_ or UNCLASSED
                    self.groups[folded(phrase)] = group_name

    def _add_words(self, name: str, attribute: Attribute, language: Language) -> None:
        words = getattr(attribute, language)
        for index, group in enumerate(words.near):
            topic = (name, self._near_groups)
            self._near_groups += 1
            for phrase in group.about:
                meaning = self._meaning(phrase)
                meaning.topics.append(topic)
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


def fewest(text: str) -> int:
    """Letters that determine which phrases may follow: fewer of Latin script may begin any other word."""
    return 3 if text.isascii() else 1


def _longest(node: _Node, row: Sequence[str], at: int) -> tuple[int, Meaning | None]:
    """End and meaning of the longest phrase that goes on from `node` with the units from `at` on."""
    best = at, node.meaning
    for step, following in _steps(node, row, at):
        end, meaning = _longest(following, row, step)
        if meaning is not None and (best[1] is None or end > best[0]):
            best = end, meaning
    return best


def _steps(node: _Node, row: Sequence[str], at: int) -> Iterator[tuple[int, _Node]]:
    """Places and nodes that one more part of a phrase leads to; literal words first."""
    if at < len(row):
        beginnings = (f"{row[at][:length]}*" for length in range(len(row[at]), 0, -1))
        yield from ((at + 1, node.following[key]) for key in (row[at], *beginnings) if key in node.following)
    if GAP in node.following:
        for end in range(at, min(at + GAP_UNITS, len(row)) + 1):
            yield end, node.following[GAP]
            if end < len(row) and (row[end] in ENDS or row[end] == COMMA):
                break
