"""The phrases of a language, and what each may mean.

Phrases are found in captions and in the tokens of a model: tokens that name the same classes are synonyms.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from specdec_cli.labels.lexicon_file import Attribute, LexiconFile, pairs
from specdec_cli.labels.units import COMMA, ENDS, GAP, units
from specdec_cli.prompts import Language

GAP_UNITS: Final = 4
"""Most units that `...` matches; it never crosses a punctuation mark."""
UNCLASSED: Final = ""
"""The class of a feeling that the attribute has no class for ("determined")."""

_DEGREE: Final = re.compile(
    "^(?:比较|非常|十分|相当|特别|有点|有些|略微|较|偏|很|略|稍|更|太|挺|颇|极|最)|[的地得着了]$"
)
"""Words of degree and particles that a Chinese token may hold beside the word that names the class: 较快, 高兴地."""

Named = tuple[str, Literal["plain", "weak"]]
"""A class, and `weak` if its word is used only where there is no other."""
Said = frozenset[tuple[str, str]]
"""(attribute, class) pairs."""
Topic = tuple[str, int]
"""Attribute, and the number of a `near` group, which no two have in common."""
Steps = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Meaning:
    """What a phrase may mean, by the part that it plays."""

    markers: set[str] = field(default_factory=set)  # the marker lists that contain it
    topics: list[Topic] = field(default_factory=list)  # the groups whose `about` contains it
    deniable: set[str] = field(default_factory=set)  # attributes that "no" denies with it: "no pauses"
    near: dict[Topic, str] = field(default_factory=dict)  # group -> class that it names beside a noun of that group
    alone: dict[str, Named] = field(default_factory=dict)  # attribute -> class that it names by itself
    feelings: dict[str, str] = field(default_factory=dict)  # attribute -> normal form in its wheel: "angry" for "anger"

    @property
    def said(self) -> Said:
        """All (attribute, class) pairs that it can name."""
        beside = [(attribute, class_) for (attribute, _), class_ in self.near.items()]
        alone = [(attribute, class_) for attribute, (class_, _) in self.alone.items() if class_ != UNCLASSED]
        return frozenset(beside + alone)

    @property
    def speaks(self) -> bool:
        """Whether it names a class or is a noun that qualities go with."""
        return bool(self.topics or self.said)


@dataclass(frozen=True, slots=True)
class Mention:
    """A known phrase in a row of units."""

    start: int
    end: int  # not included
    meaning: Meaning
    sentence: int  # its number; words like "but" begin a new one too
    clause: int  # its number; commas begin a new one too
    since: int  # the first unit behind the last mark, or the last phrase that speaks, before it

    def marks(self, marker: str) -> bool:
        """Whether it is in this list of markers."""
        return marker in self.meaning.markers


class Vocabulary:
    """The phrases of one language in lexicon files, later ones over earlier ones.

    Attributes:
        meanings: steps of every phrase (units, `beginning*` of one, or `...`) -> its meaning. Phrases that differ in
            case, width or hyphens only are one.
        first: attribute and class -> the first word of the wheel that names it.
    """

    def __init__(self, files: Sequence[LexiconFile], language: Language) -> None:
        self.meanings: defaultdict[Steps, Meaning] = defaultdict(Meaning)
        self.first: dict[tuple[str, str], str] = {}
        self._groups = 0
        for file in files:
            for name, attribute in file.attributes.items():
                self._add(name, attribute, language)
            for marker, phrases in file.markers.get(language, {}).items():
                for phrase in phrases:
                    self._meaning(phrase).markers.add(marker)
        self._by_first: defaultdict[str, list[Steps]] = defaultdict(list)
        for steps in sorted(self.meanings, key=lambda steps: [(step == GAP, step.endswith("*")) for step in steps]):
            self._by_first[steps[0]].append(steps)  # literal words first

    def mentions(self, row: Sequence[str]) -> list[Mention]:
        """The longest known phrase at each place of a row of units, left to right, none over another."""
        found: list[Mention] = []
        sentence = clause = place = since = at = 0
        while at < len(row):
            beginnings = (f"{row[at][:length]}*" for length in range(len(row[at]), 0, -1))
            phrases = (steps for first in (row[at], *beginnings) for steps in self._by_first.get(first, ()))
            ends = ((_end(steps, row, at), self.meanings[steps]) for steps in phrases)
            end, meaning = max(ends, key=lambda found: found[0], default=(0, Meaning()))
            if not end:
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

    def classes_begun(self, attribute: str, beginning: str) -> Counter[str]:
        """Class -> number of phrases, without spaces, that name it and begin so; empty for too short a beginning."""
        meanings = self.meanings if len(beginning) >= _fewest(beginning) else {}
        said = (meaning.said for steps, meaning in meanings.items() if "".join(steps).startswith(beginning))
        return Counter(class_ for pairs in said for name, class_ in pairs if name == attribute)

    def synonyms(self, pieces: Iterable[tuple[int, str]]) -> dict[int, int]:
        """Token id -> number of its group, in which tokens may replace one another: they name the same class.

        `pieces` are the tokens of a model's vocabulary with the space before them. A token names what the phrase of its
        text names: " cheerful" and " joy" are synonyms. A token must begin a word, so "ing" and "he" name nothing. The
        first part of a word names what all phrases and tokens that begin so name. A token has no group if these differ,
        if one of them is something else (a noun that qualities go with, a negation), or if the token is too short.
        """
        whole: dict[str, Said] = {}  # phrases without spaces, and their beginnings, where those that begin so agree
        begun: dict[str, Said] = {}
        for steps, meaning in self.meanings.items():
            spelled, _, wild = "".join(steps).partition(GAP)
            spelled = spelled.removesuffix("*")
            whole[spelled] = frozenset() if wild or meaning.markers or meaning.topics else meaning.said
            for end in range(max(_fewest(spelled), 2), len(spelled)):
                if begun.setdefault(spelled[:end], whole[spelled]) != whole[spelled]:
                    begun[spelled[:end]] = frozenset()
        words = [(id_, "".join(units(text))) for id_, text in pieces if _begins_a_word(text)]
        known = sorted({word for _, word in words})
        groups: defaultdict[Said, list[int]] = defaultdict(list)
        for id_, word in words:
            said = whole.get(word) or whole.get(_DEGREE.sub("", word))
            if said is None and (said := begun.get(word)):
                longer = known[bisect_left(known, word) : bisect_left(known, f"{word}\U0010ffff")]
                said = said if {whole.get(other, begun.get(other)) for other in longer} == {said} else None
            if said:
                groups[said].append(id_)
        return {id_: number for number, ids in enumerate(groups.values()) for id_ in ids}

    def _meaning(self, phrase: str) -> Meaning:
        steps: list[str] = []
        for part in phrase.split():
            steps += [GAP] if part == GAP else units(part)
            if part.endswith("*") and steps:
                steps[-1] += "*"
        return self.meanings[tuple(steps)]

    def _add(self, name: str, attribute: Attribute, language: Language) -> None:
        for feelings in attribute.wheel.values():
            for forms in getattr(feelings, language):
                if feelings.class_ is not None:
                    self.first.setdefault((name, feelings.class_), forms[0])
                for form in forms:
                    self._meaning(form).feelings[name] = forms[0].removesuffix("*")
                    self._meaning(form).alone[name] = feelings.class_ or UNCLASSED, "plain"
        words = getattr(attribute, language)
        for near in words.near:
            topic, self._groups = (name, self._groups), self._groups + 1
            for noun in near.about:
                self._meaning(noun).topics.append(topic)
                if near is words.near[0] and attribute.absent is not None:
                    self._meaning(noun).deniable.add(name)
            for phrase, class_ in pairs(near.words):
                self._meaning(phrase).near[topic] = class_
        for phrase, class_ in pairs(words.weak):
            self._meaning(phrase).alone[name] = class_, "weak"
        for phrase, class_ in pairs(words.alone):
            self._meaning(phrase).alone[name] = class_, "plain"


def is_degree(text: str) -> bool:
    """Whether a Chinese text is but a word of degree (较, 非常)."""
    return _DEGREE.fullmatch(text) is not None


def _fewest(text: str) -> int:
    """Fewest letters from which the phrases that follow are looked up; fewer Latin letters begin too many words."""
    return 3 if text.isascii() else 1


def _begins_a_word(text: str) -> bool:
    """Whether a token is long enough and begins a word; in scripts without spaces every token does."""
    stripped = text.strip()
    if not stripped or "\ufffd" in text or (stripped.isascii() and len(stripped) < _fewest(stripped)):
        return False
    return not (text[0].isascii() and text[0].islower())


def _end(steps: Steps, row: Sequence[str], at: int) -> int:
    """Latest end of a phrase that begins at `at`; 0 if it does not begin there."""
    for index, step in enumerate(steps):
        if step == GAP:
            reach = next((end for end in range(at, len(row)) if row[end] in ENDS or row[end] == COMMA), len(row))
            places = range(at, min(at + GAP_UNITS, reach) + 1)
            return max(_end(steps[index + 1 :], row, place) for place in places)
        if at == len(row) or not (row[at] == step or (step.endswith("*") and row[at].startswith(step[:-1]))):
            return 0
        at += 1
    return at
