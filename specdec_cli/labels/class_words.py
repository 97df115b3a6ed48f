"""Which classes a text comes to name with one more token: those of the phrases that end, or begin, at its end.

A word that goes with a noun names the class of its noun, if that stands before it ("the pitch is low", 音调较低).
Before its noun ("low") it may name one of every attribute that it goes with. A phrase also begins within a word: 大
begins 大小适中, "mod" begins "moderately paced".

A model of fixed wording lists the meaning of its words in `specdec_words` of its config.json.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from specdec_cli.labels.extraction import Ending
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.probabilities import Decode
from specdec_cli.labels.units import ENDS, GAP, units
from specdec_cli.labels.vocabulary import Meaning, Steps, is_degree
from specdec_cli.models.processor import Processor
from specdec_cli.prompts import Language

Words = Mapping[str, Mapping[str, str]]
"""Language -> attribute -> the words with which a model of fixed wording names its classes, and nothing else."""

_LONGEST: Final = 8
"""Units at the end of a text within which a phrase may have begun."""
_OWN_WORDS: Final = frozenset("和呢时中一不有无没行连经常极许单说声音语")
"""Characters that are far oftener words of their own, or parts of others, than beginnings of phrases (和缓, 呢喃)."""
_PARTICLES: Final = frozenset("的地得着了")
"""Which a token may hold behind the word that names a class: 大的."""
_LETTERS: Final = 3
"""Fewest Latin letters at the beginning of a word from which its continuations are looked up."""


class Named(NamedTuple):
    """A class that a text may come to name."""

    attribute: str
    class_: str
    sure: bool  # False: a noun is still to come, and hardly one of an attribute that the text has named


Naming = frozenset[Named]
_NOTHING: Final[Naming] = frozenset()


class _Written(NamedTuple):
    """A text."""

    row: list[str]  # its units
    start: int  # the first unit of its last sentence
    language: Language


class _Units:
    """The units of one language that end phrases, and those that begin or go on with one."""

    def __init__(self) -> None:
        self._ends, self._begins, self._stems = set[str](), set[str](), list[str]()

    def add(self, steps: Steps) -> None:
        if steps[-1].endswith("*"):
            self._stems.append(steps[-1].removesuffix("*"))
        self._ends.add(steps[-1])
        for step in steps:
            if _is_latin(step):
                self._begins.update(step[:end] for end in range(_LETTERS, len(step)))
            elif step != GAP:
                self._begins.add(step)

    def has(self, unit: str) -> bool:
        """Whether a unit may be in a phrase's end or beginning."""
        return unit in self._ends or unit in self._begins or any(map(unit.startswith, self._stems))


class ClassWords:
    """Finds the classes that tokens name. Results are cached, since captions repeat each other.

    Args:
        lexicon: has the phrases.
        attributes: whose classes are looked for.
        decode: token ids to text.
        words: of a model of fixed wording; None: words mean what the lexicon has.
    """

    def __init__(
        self, lexicon: Lexicon, attributes: Collection[str], decode: Decode, words: Words | None = None
    ) -> None:
        self._lexicon, self.attributes, self._decode = lexicon, frozenset(attributes), decode
        self._fixed = defaultdict[tuple[str, Steps], Naming](frozenset)
        for language in lexicon.vocabularies:
            for name, own in (words or {}).get(language, {}).items():
                for word in own.split():
                    steps = tuple(units(word))
                    meant = _named(lexicon.last(steps, language)) if name in self.attributes else ()
                    sure = (one._replace(sure=True) for one in meant if one.attribute == name)
                    self._fixed[language, steps] |= frozenset(sure)
        self._phrases = {language: defaultdict[str, list[Steps]](list) for language in lexicon.vocabularies}
        self._units = {language: _Units() for language in lexicon.vocabularies}
        for language, vocabulary in lexicon.vocabularies.items():
            for steps, meaning in vocabulary.meanings.items():
                self._phrases[language][steps[0][0]].append(steps)
                if any(name in self.attributes for name, _ in meaning.said):
                    self._units[language].add(steps)
        self.touches = lru_cache(maxsize=1 << 16)(self._touches)
        self.naming = lru_cache(maxsize=1 << 14)(self._naming)
        self.labels = lru_cache(maxsize=1 << 11)(self._labels)
        self._written = lru_cache(maxsize=1 << 11)(self._read)
        self._found = lru_cache(maxsize=1 << 12)(self._find)

    def _touches(self, token: int) -> bool:
        """Whether a token may end or begin a phrase that names a class; where none does, nothing has to be read."""
        text = self._decode((token,))
        last = next(reversed(_without_end(units(text))), None)
        if last is None or "\ufffd" in text:
            return "\ufffd" in text  # part of a character
        return any(known.has(last) for known in self._units.values())

    def _labels(self, text_ids: tuple[int, ...], language: Language) -> Mapping[str, str | None]:
        """The class that a text names for every attribute."""
        return self._lexicon.labels(self._decode(text_ids), language)

    def _read(self, text_ids: tuple[int, ...], language: Language) -> _Written:
        """A text in units, with its language."""
        written = self._decode(text_ids)
        row = units(written)
        start = max((at + 1 for at, unit in enumerate(row) if unit in ENDS), default=0)
        return _Written(row, start, self._lexicon.language_of(written, language))

    def _naming(self, text_ids: tuple[int, ...], token: int, language: Language) -> Naming:
        """What a text may come to name with one more token.

        Empty if the token adds nothing to what the text began to name; if a phrase that it ends or begins may mean
        something of another kind; and for tokens inside a Latin word and in quoted speech.
        """
        longer = self._decode((*text_ids, token))
        if longer.count('"') % 2 or longer.count("“") > longer.count("”"):
            return _NOTHING
        (before, start, own), every = self._written(text_ids, language), units(longer)
        row = _without_end(every, len(before) + 1)
        marked = len(row) < len(every)
        if len(row) <= len(before) or row[: len(before)] != before:
            return _NOTHING
        if not self._units[own].has(row[-1]):
            return _NOTHING
        return self._found(tuple(row[start:]), len(before) - start, own, marked)

    def _find(self, row: Steps, fresh: int, language: Language, marked: bool) -> Naming:
        """See `_naming`: the last sentence in units, the token's first unit, and whether a mark ends the token."""
        fixed = self._fixed_wording(row, language)
        if fixed is not None and len(fixed) < 2:
            return fixed
        end = self._lexicon.last(row, language)
        named = {one for one in _named(end) if one.attribute in self.attributes}
        if fixed:  # 适中: its noun, which stands before it, says of what
            return fixed.intersection(one._replace(sure=True) for one in named)
        is_ended = end.start < len(row)
        if is_ended and self._is_in_a_word(row, fresh, end, language):
            return _NOTHING
        if is_ended and (end.is_noun or not named or {name for name, _ in end.named} - self.attributes):
            return _NOTHING
        is_new = is_ended
        if is_ended and end.start < fresh:  # the text has begun this phrase: what has it named so far?
            is_new = not _pairs(named) <= _pairs(_named(self._lexicon.last(row[:fresh], language)))
        if not (marked or (is_ended and _is_latin(row[-1]))):
            has_noun = bool(named) and not end.may_name
            # of phrases that overlap the first is used
            for meaning in self._begun(row, min(fresh, end.start), language):
                said = self._said(meaning, _pairs(named), has_noun=has_noun, only=len(end.noun) == 1)
                if said is None:
                    return _NOTHING
                named |= {Named(*pair, sure=False) for pair in said}
                is_new = is_new or bool(said)
        return frozenset(named) if is_new else _NOTHING

    def _is_in_a_word(self, row: Steps, fresh: int, end: Ending, language: Language) -> bool:
        """Whether a token holds another Chinese word than the phrase at its end: 轻 in 年轻."""
        before = row[fresh : end.start]
        if not before or _is_latin(row[-1]) or is_degree("".join(before)):
            return False
        return self._lexicon.last(row[: end.start], language).start == end.start

    def _fixed_wording(self, row: Steps, language: Language) -> Naming | None:
        """The class that the fixed word at the end of a row names; None if there is no such word."""
        ends = (row[-size:] for size in range(1, min(len(row), _LONGEST) + 1))
        return next((self._fixed[language, end] for end in ends if (language, end) in self._fixed), None)

    def _begun(self, row: Steps, until: int, language: Language) -> Iterator[Meaning]:
        """The phrases that go on within the last word of a row, and begin with its unit `until` or before."""
        is_latin = _is_latin(row[-1])
        if is_latin and len(row[-1]) < _LETTERS:
            return
        meanings = self._lexicon.vocabularies[language].meanings
        until = min(until, len(row) - 2) if row[-1] in _OWN_WORDS else until
        for start in range(max(len(row) - _LONGEST, 0), until + 1):
            for steps in self._phrases[language].get(row[start][0], ()):
                if _begins(steps, row[start:], is_latin=is_latin):
                    yield meanings[steps]

    def _said(self, meaning: Meaning, named: Pairs, *, has_noun: bool, only: bool) -> Pairs | None:
        """The classes that a longer phrase adds to those `named`; None if it may mean something of another kind.

        `has_noun`: the words so far have their noun, so that the phrase goes with the same noun or needs none; `only`:
        that noun goes with one attribute alone, so that no feeling is said of it (语速快乐).
        """
        names = {name for name, _ in meaning.said}
        nouns = {name for name, _ in named} if has_noun else self.attributes
        said = frozenset((name, class_) for name, class_ in meaning.said if name in nouns)
        if meaning.topics:
            return None
        if said:
            return said - named if said <= named or has_noun or names <= self.attributes else None
        is_elsewhere = has_noun and (only or "nothing" in meaning.markers or (names and names <= self.attributes))
        return said if is_elsewhere else None


Pairs = frozenset[tuple[str, str]]


def _named(end: Ending) -> set[Named]:
    """What a phrase names, and may name."""
    sure = {Named(*pair, sure=True) for pair in end.named}
    return sure | {Named(*pair, sure=False) for pair in end.may_name}


def _pairs(named: Collection[Named]) -> Pairs:
    return frozenset((one.attribute, one.class_) for one in named)


def _without_end(row: list[str], least: int = 1) -> list[str]:
    """A row without the marks and particles at its end; a particle is left of which a row of `least` units is made."""
    end = len(row)
    while end and not row[end - 1].isalnum():
        end -= 1
    if end > least and row[end - 1] in _PARTICLES:
        end -= 1
    return row[:end]


def _is_latin(unit: str) -> bool:
    return unit[0] < "\u0250" and unit[0].isalpha()


def _begins(steps: Sequence[str], tail: Sequence[str], *, is_latin: bool) -> bool:
    """Whether a phrase begins with a tail of units, and goes on within the last word of it."""
    last = len(tail) - 1
    if len(steps) <= last or tuple(steps[:last]) != tuple(tail[:last]):
        return False
    if is_latin:
        return len(steps[last].removesuffix("*")) > len(tail[last]) and steps[last].startswith(tail[last])
    return steps[last] == tail[last] and len(steps) > len(tail) and steps[last + 1] != GAP


@lru_cache(maxsize=4)  # variants of a captioner, and clips of a server, share them
def class_words(lexicon: Lexicon, attributes: tuple[str, ...], writer: Processor) -> ClassWords:
    """The class words of a model's vocabulary."""
    return ClassWords(lexicon, attributes, writer.text, getattr(writer.config, "specdec_words", None))


@lru_cache(maxsize=4)  # variants of a captioner share them
def word_groups(writer: Processor, vocab_size: int, language: Language) -> Mapping[int, int]:
    """Token ids that name the same classes of the shipped lexicon; see `Vocabulary.synonyms`."""
    pieces = ((id_, writer.word(id_)) for id_ in range(vocab_size))
    return Lexicon.shipped().vocabularies[language].synonyms(pieces)
