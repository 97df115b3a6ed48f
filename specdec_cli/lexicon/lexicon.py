"""The lexicon: from what a caption says, or from a table's own word, to a class."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from specdec_cli.lexicon.file import read_lexicon
from specdec_cli.lexicon.layout import Fit, LexiconFile, Span
from specdec_cli.lexicon.reading import Reader, Reading, Rules
from specdec_cli.lexicon.units import normalise
from specdec_cli.lexicon.vocabulary import Vocabulary
from specdec_cli.prompts import Language
from specdec_cli.types import Claim, Measured

_LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
NOT_GIVEN: Final = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "unk"})
"""What tables write where a label is not known."""


@dataclass(frozen=True)
class Lexicon:
    """Which words say which class, in Chinese and English. It does not change once it is made."""

    _classes: dict[str, tuple[str, ...]]
    _rules: Rules
    _readers: Mapping[Language, Reader]
    _names: Mapping[str, Mapping[str, str | None]]
    _fits: Mapping[str, tuple[Fit, ...]]

    @property
    def attributes(self) -> Mapping[str, tuple[str, ...]]:
        """Attribute -> its classes, both in the lexicon's order."""
        return MappingProxyType(self._classes)

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
        fits = {name: tuple(fit for file in reversed(files) for fit in _fits_of(file, name)) for name in attributes}
        return cls(attributes, rules, readers, _table_words(files), fits)

    def labels(self, text: str, language: Language) -> dict[str, str | None]:
        """The class that a caption says for every attribute; None where it says nothing, or contradicts itself.

        Some 2000 words are read, more than any caption has.

        A word counts where nothing negates it. Where words of several classes are left for one attribute, the first
        of these rules that leaves exactly one class decides, and None is the answer where none does:

        1. what is called likeliest ("最可能", "mainly") stands above the rest;
        2. a class that yields (calm delivery, which is read as neutral) gives way to any other;
        3. what is said plainly stands above what is said weakly ("一丝", "a hint of", or only "he" for a man's voice).
        """
        said = self.namings(text, language)
        return {name: said[name].class_ if name in said else None for name in self.attributes}

    def namings(self, text: str, language: Language) -> dict[str, Reading]:
        """For every attribute of which a caption says a class, the first word that decides it; see `labels`."""
        readings = self._readers[language].read(text)
        found = {
            name: _decide([reading for reading in readings if reading.attribute == name], self._rules.yields[name])
            for name in self.attributes
        }
        return {name: reading for name, reading in found.items() if reading is not None}

    def begun(self, attribute: str, text: str, language: Language) -> Mapping[str, int]:
        """Classes of an attribute whose phrases begin with `text`, the first part of a word: how many of each do."""
        return self._readers[language].vocabulary.begun(attribute, text)

    def beginnings(self, language: Language) -> Mapping[str, frozenset[tuple[str, str]]]:
        """Every phrase and beginning of one, without spaces -> the (attribute, class) pairs that it comes to."""
        return self._readers[language].vocabulary.beginnings()

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


def _decide(readings: Sequence[Reading], yields: Collection[str]) -> Reading | None:
    """The first reading of the class that those of one attribute come to, by the rules of `Lexicon.labels`."""
    giving_way = set(yields) if {reading.class_ for reading in readings} - set(yields) else set()
    for strength, out in (("likeliest", set()), ("plain", giving_way), ("slight", giving_way)):
        if left := [reading for reading in readings if reading.strength == strength and reading.class_ not in out]:
            return left[0] if len({reading.class_ for reading in left}) == 1 else None
    return None


def _fits_of(file: LexiconFile, name: str) -> Sequence[Fit]:
    return file.attributes[name].measured if name in file.attributes else ()


def _folded(value: str) -> str:
    return " ".join(normalise(value).replace("_", " ").replace("-", " ").split())


def _table_words(files: list[LexiconFile]) -> dict[str, dict[str, str | None]]:
    """Attribute -> word as a table may write it -> class, or None for one that is ignored."""
    found: dict[str, dict[str, str | None]] = {}
    for file in files:
        for name, attribute in file.attributes.items():
            known = found.setdefault(name, {})
            for language in _LANGUAGES:
                words = getattr(attribute, language)
                for spoken in (words.weak, *(group.words for group in words.near), words.alone):
                    known.update({_folded(word): class_ for class_, phrases in spoken.items() for word in phrases})
            known.update({_folded(word): class_ for class_, words in attribute.aliases.items() for word in words})
            known.update({_folded(word): None for word in attribute.ignored})
            known.update({_folded(class_): class_ for class_ in attribute.classes})
    return found
