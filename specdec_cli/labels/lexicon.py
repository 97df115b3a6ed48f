"""The lexicon: from the words of a caption, or from a table's own word, to a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from specdec_cli.labels.extraction import UNCLASSED, Reader, Reading, Rules, Strength
from specdec_cli.labels.lexicon_file import Attribute, Fit, Span, read_lexicon
from specdec_cli.labels.units import normalise
from specdec_cli.labels.vocabulary import Vocabulary
from specdec_cli.prompts import Language
from specdec_cli.reading.faults import language_of
from specdec_cli.types import Claim, Measured

_LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
NOT_GIVEN: Final = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "unk"})
"""What tables write where a label is not known."""


@dataclass(frozen=True)
class Lexicon:
    """Which words name which class, in Chinese and English. It does not change once it is made.

    Attributes:
        attributes: attribute -> its classes, both in the lexicon's order.
    """

    attributes: Mapping[str, tuple[str, ...]]
    _rules: Rules
    _readers: Mapping[Language, Reader]
    _names: Mapping[str, Mapping[str, str | None]]
    _fits: Mapping[str, tuple[Fit, ...]]
    _wheels: Mapping[str, _Wheel]

    @property
    def measurable(self) -> tuple[str, ...]:
        """The attributes that have a measured figure."""
        return tuple(name for name, fits in self._fits.items() if fits)

    @classmethod
    def load(cls, path: Path | None = None) -> Lexicon:
        """Reads a lexicon file, or the shipped one.

        Raises:
            LexiconError: the file cannot be read, is malformed, or contradicts itself; names the line and the key.
        """
        files = read_lexicon(path)
        attributes: dict[str, tuple[str, ...]] = {}
        for file in files:
            for name, attribute in file.attributes.items():
                attributes[name] = tuple(dict.fromkeys((*attributes.get(name, ()), *attribute.classes)))
        rules = Rules.of(files)
        readers = {language: Reader(Vocabulary(files, language), rules, language) for language in _LANGUAGES}
        parts = {name: [file.attributes[name] for file in files if name in file.attributes] for name in attributes}
        fits = {name: tuple(fit for part in reversed(of) for fit in part.measured) for name, of in parts.items()}
        names = {name: _table_words(of) for name, of in parts.items()}
        wheels = {name: wheel for name, of in parts.items() if (wheel := _Wheel.of(of)).groups}
        return cls(attributes, rules, readers, names, fits, wheels)

    def labels(self, text: str, language: Language) -> dict[str, str | None]:
        """The class that a caption names for every attribute; None where it names none.

        Some 2000 words are read, more than any caption has, in the language that they are written in; `language`
        decides where that is not clear. Quoted speech is left out. A word counts where nothing negates it. Where
        words of several classes are left for one attribute, the first of these rules that leaves one class decides:

        1. what is called likeliest or concluded ("最可能", "mainly", "so") stands above what is named plainly, that
           above what is named weakly ("一丝", "a hint of"), and that above what is beside the point (the reasons after
           "because", or only "he" for a man's voice);
        2. a class that yields gives way to another: calm delivery, which is read as neutral, to a hint of sadness; a
           steady pace, which is read as medium, to a plainly slow one;
        3. what is named most often;
        4. what is named first, of an attribute with a wheel, whose classes may be named side by side; of others, none.
        """
        said = self.namings(text, language)
        return {name: said[name].class_ if name in said else None for name in self.attributes}

    def namings(self, text: str, language: Language) -> dict[str, Reading]:
        """For every attribute of which a caption names a class, the first word that decides it; see `labels`."""
        readings = self._readers[self._written_in(text, language)].read(text)
        found = {
            name: self._decide(name, [reading for reading in readings if reading.attribute == name])
            for name in self.attributes
        }
        return {name: reading for name, reading in found.items() if reading is not None}

    def emotions(self, text: str, language: Language) -> tuple[str, ...]:
        """The emotion words that a caption uses of the speaker, in order, each once and in its normal form.

        They are words of a wheel ("angry" for "angrily"). Where another word names one (低沉 beside 情绪), the first
        word of that class stands for it. Words beside the point count where there are no others.
        """
        written = self._written_in(text, language)
        readings = [one for one in self._readers[written].read(text) if one.attribute in self._wheels]
        above = [one for one in readings if one.strength != "weak"]
        words = [
            one.feeling.word
            if one.feeling is not None
            else self._wheels[one.attribute].first.get((written, one.class_))
            for one in sorted(above or readings, key=lambda one: one.start)
        ]
        return tuple(dict.fromkeys(word for word in words if word is not None))

    def emotion_group(self, word: str) -> str | None:
        """The group of a wheel, joy or guilt, that a word belongs to in either language; None: it stands in none."""
        return next((group for wheel in self._wheels.values() if (group := wheel.groups.get(_folded(word)))), None)

    def emotion_groups(self, words: Iterable[str]) -> frozenset[str]:
        """The groups that words belong to."""
        return frozenset(group for word in words if (group := self.emotion_group(word)) is not None)

    def _written_in(self, text: str, language: Language) -> Language:
        """The language of a text, which may not be the one asked for."""
        found = language_of(text)
        return next((known for known in self._readers if known == found), language)

    def _decide(self, attribute: str, readings: Sequence[Reading]) -> Reading | None:
        """The first reading of the class that those of one attribute come to, by the rules of `labels`."""
        yields = self._rules.yields[attribute]
        too_weak = ("weak",) if attribute in self._wheels else ("weak", "slight")
        classes = {one.class_ for one in readings if one.strength not in too_weak} - {UNCLASSED}
        out = {UNCLASSED, *(yields if classes - yields else ())}
        for strength in get_args(Strength):
            left = [one for one in readings if one.strength == strength and one.class_ not in out]
            if strength == "likeliest" and not left:
                left = [one for one in readings if one.strength == strength and one.class_ in yields]
            if left:
                most = _commonest([one.class_ for one in left])
                if len(most) > 1 and attribute not in self._wheels:
                    return None
                most = _commonest([one.class_ for one in readings if one.class_ in most])
                return next(one for one in left if one.class_ in most)
        return None

    def vocabulary(self, language: Language) -> Vocabulary:
        """The phrases of a language."""
        return self._readers[language].vocabulary

    def claims(self, labels: Mapping[str, str | None], measured: Measured) -> tuple[Claim, ...]:
        """The labels of every attribute that can be measured, each beside its figure and what of it fits the class.

        Of several entries under `measured` the first counts whose `where` the labels satisfy and which has the class;
        those of a file that extends the shipped one stand before its own.
        """
        claims = []
        for name, fits in self._fits.items():
            said = labels.get(name)
            right = [fit for fit in fits if all(labels.get(other) == class_ for other, class_ in fit.where.items())]
            for fit in [fit for fit in right if said in fit.classes][:1] or right[:1]:
                span = fit.classes.get(said or "", Span())
                claims.append(Claim(name, said, fit.figure, getattr(measured, fit.figure), span.least, span.most))
        return tuple(claims)

    def canonical(self, attribute: str, value: str) -> str | None:
        """The class that a table's own word stands for ("calm", "anger", "愤怒"), or None if it is not known.

        Raises:
            KeyError: the lexicon has no such attribute.
        """
        return self._names[attribute].get(_folded(value))

    def ignores(self, attribute: str, value: str) -> bool:
        """Whether a table's word means on purpose that there is no class: empty, "unknown", boredom.

        Raises:
            KeyError: the lexicon has no such attribute.
        """
        known = self._names[attribute]
        word = _folded(value)
        return known.get(word) is None and (word in known or word in NOT_GIVEN)


def _commonest(classes: Sequence[str]) -> set[str]:
    """Those that occur most often."""
    counts = Counter(classes)
    return {class_ for class_, count in counts.items() if count == max(counts.values())}


@dataclass(frozen=True)
class _Wheel:
    """An attribute's groups of open words."""

    groups: Mapping[str, str]  # every form of a word, folded -> its group
    first: Mapping[tuple[Language, str], str]  # language and class -> the first word that names it

    @classmethod
    def of(cls, parts: Sequence[Attribute]) -> _Wheel:
        groups: dict[str, str] = {}
        first: dict[tuple[Language, str], str] = {}
        for name, group in (pair for part in parts for pair in part.wheel.items()):
            for language in _LANGUAGES:
                words: list[list[str]] = getattr(group, language)
                groups |= {_folded(form): name for forms in words for form in forms}
                if group.class_ is not None and words:
                    first.setdefault((language, group.class_), words[0][0])
        return cls(groups, first)


def _folded(value: str) -> str:
    return " ".join(normalise(value).replace("_", " ").replace("-", " ").split())


def _table_words(parts: Sequence[Attribute]) -> dict[str, str | None]:
    """Word as a table may write it -> class, or None for one that is ignored."""
    known: dict[str, str | None] = {}
    for attribute in parts:
        for language in _LANGUAGES:
            words = getattr(attribute, language)
            for listed in (words.weak, *(group.words for group in words.near), words.alone):
                known.update({_folded(word): class_ for class_, phrases in listed.items() for word in phrases})
        for group in attribute.wheel.values():
            if group.class_ is not None:
                forms = [form for words in (*group.zh, *group.en) for form in words]
                known.update(dict.fromkeys(map(_folded, forms), group.class_))
        known.update({_folded(word): class_ for class_, words in attribute.aliases.items() for word in words})
        known.update({_folded(word): None for word in attribute.ignored})
        known.update({_folded(class_): class_ for class_ in attribute.classes})
    return known
