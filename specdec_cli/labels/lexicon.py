"""The lexicon: from the words of a caption, or from a table's own word, to a class."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from statistics import multimode
from typing import Final, get_args

from specdec_cli.errors import ConfigError
from specdec_cli.labels.extraction import Caption, Ending, Reading, Strength
from specdec_cli.labels.lexicon_file import LexiconFile, Span, read_lexicon, rules_of, shipped
from specdec_cli.labels.units import folded
from specdec_cli.labels.vocabulary import UNCLASSED, Vocabulary
from specdec_cli.prompts import Language
from specdec_cli.reading import language_of, only_guesses
from specdec_cli.types import Claim, Measured

NOT_GIVEN: Final = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown", "unk"})
"""What tables write where a label is not known."""


class Lexicon:
    """Which words name which class, in Chinese and English, by files of words, later ones over earlier ones.

    Attributes:
        attributes: attribute -> its classes, both in the lexicon's order.
        vocabularies: the phrases of each language.
        codes: attribute -> corpus -> code of its tables, `folded` -> class; None: no class of the attribute.
        table_words: attribute -> word of any table, `folded` -> class; None: none ("", "unknown", an ignored word).
    """

    def __init__(self, files: Sequence[LexiconFile]) -> None:
        self._files = files
        self._rules = rules = rules_of(file.attributes for file in files)
        self.attributes: Mapping[str, tuple[str, ...]] = {name: tuple(each.classes) for name, each in rules.items()}
        self.table_words = {name: dict[str, str | None].fromkeys(NOT_GIVEN) for name in rules}
        for name, part in (item for file in files for item in file.attributes.items()):
            self.table_words[name].update((folded(word), class_) for word, class_ in part.words())
        self.codes = {
            name: {corpus: {folded(code): of for code, of in codes.items()} for corpus, codes in rule.codes.items()}
            for name, rule in rules.items()
        }
        self.vocabularies: Mapping[Language, Vocabulary] = {of: Vocabulary(files, of) for of in get_args(Language)}

    @classmethod
    def read(cls, path: Path | None = None) -> Lexicon:
        """Reads a lexicon file, or the shipped one.

        Raises:
            LexiconError: the file cannot be read, is malformed, or uses a class that does not exist; names the key.
        """
        return cls.shipped() if path is None else cls(read_lexicon(path).layers())

    @classmethod
    @cache
    def shipped(cls) -> Lexicon:
        """The shipped one, read once."""
        return cls(shipped().layers())

    @property
    def measured(self) -> tuple[str, ...]:
        """The attributes whose classes have limits of a measured figure."""
        return tuple(name for name, rules in self._rules.items() if rules.measured)

    def limited(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Those `names`, or all `measured` ones; raises ConfigError for one that has no limits (`decoding.sound`)."""
        for name in names or ():
            if name not in self.measured:
                hint = f"With limits in the lexicon: {', '.join(self.measured) or 'none'}."
                raise ConfigError(f"decoding.sound names {name!r}, for which the lexicon has no limits.", hint=hint)
        return self.measured if names is None else tuple(name for name in self.measured if name in names)

    @cached_property
    def digest(self) -> str:
        """Digest of the content of the lexicon."""
        content = json.dumps([file.model_dump(mode="json") for file in self._files], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def allows(self, attribute: str, class_: str, labels: Mapping[str, str | None], measured: Measured) -> bool | None:
        """Whether the sound allows a text with these labels to name a class of a measured attribute (`Fit.decided`).

        None if that is not known: there is no figure, or a `where` waits for a class that the text has not named yet.
        """
        for fit in self._rules[attribute].measured:
            if not all(labels.get(name) in (None, value) for name, value in fit.where.items()):
                continue
            if not fit.where.items() <= labels.items():
                return None
            if class_ in fit.classes:
                return fit.decided[class_].holds(getattr(measured, fit.figure))
        return None

    def labels(self, text: str, language: Language) -> dict[str, str | None]:
        """The class that a caption names for every attribute; None where it names none.

        Some 2000 words are read, more than any caption has, in the language that they are written in; `language`
        decides where that is not clear. Quoted speech is left out, and so are negated words. Where
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
        readings, _ = self._read(text, language)
        of = {name: [one for one in readings if one.attribute == name] for name in self.attributes}
        return {name: found for name, own in of.items() if (found := self._decide(name, own)) is not None}

    def emotions(self, text: str, language: Language) -> tuple[str, ...]:
        """The emotion words that a caption uses of the speaker, in order, each once and in its normal form.

        They are words of a wheel ("angry" for "angrily"). Where another word names one (低沉 beside 情绪), the first
        word of that class stands for it. Weak words are used where there are no others.
        """
        every, vocabulary = self._read(text, language)
        readings = [one for one in every if self._rules[one.attribute].wheel]
        above = [one for one in readings if one.strength != "weak"]
        words = (
            one.mention.meaning.feelings.get(one.attribute) or vocabulary.first.get((one.attribute, one.class_))
            for one in sorted(above or readings, key=lambda one: one.mention.start)
        )
        return tuple(dict.fromkeys(word for word in words if word))

    def _read(self, text: str, language: Language) -> tuple[list[Reading], Vocabulary]:
        """What a text names in the language that it is written in; a text that refuses names nothing."""
        of = self.language_of(text, language)
        if only_guesses(text):
            return [], self.vocabularies[of]
        return Caption(text, self.vocabularies[of], self._rules, of).readings(), self.vocabularies[of]

    def language_of(self, text: str, asked: Language) -> Language:
        """The language that a text is written in, which may not be the requested one."""
        found = language_of(text)
        return next((known for known in self.vocabularies if known == found), asked)

    def last(self, row: Sequence[str], language: Language) -> Ending:
        """The known phrase at the end of a row of units, and what it names."""
        return Caption(" ".join(row), self.vocabularies[language], self._rules, language).last()

    def _decide(self, attribute: str, readings: Sequence[Reading]) -> Reading | None:
        """The first reading of the class that those of one attribute come to, by the rules of `labels`."""
        yields, has_wheel = set(self._rules[attribute].yields), bool(self._rules[attribute].wheel)
        too_weak = ("weak",) if has_wheel else ("weak", "slight")
        classes = {one.class_ for one in readings if one.strength not in too_weak} - {UNCLASSED}
        out = {UNCLASSED, *(yields if classes - yields else ())}
        for strength in get_args(Strength):
            left = [one for one in readings if one.strength == strength and one.class_ not in out]
            if strength == "likeliest" and not left:
                left = [one for one in readings if one.strength == strength and one.class_ in yields]
            if left:
                most = multimode(one.class_ for one in left)
                if len(most) > 1 and not has_wheel:
                    return None
                most = multimode(one.class_ for one in readings if one.class_ in most)
                return next(one for one in left if one.class_ in most)
        return None

    def claims(self, labels: Mapping[str, str | None], measured: Measured) -> tuple[Claim, ...]:
        """One claim for every attribute that can be measured: its class, its figure, and the values that fit the class.

        Of several entries under `measured` the first is used whose `where` the labels satisfy and which has the class;
        entries of a file that extends the shipped one come before the shipped ones.
        """
        claims = []
        for name, rules in self._rules.items():
            said, right = labels.get(name), [fit for fit in rules.measured if fit.where.items() <= labels.items()]
            for fit in [fit for fit in right if said in fit.classes][:1] or right[:1]:
                span = fit.classes.get(said or "", Span())
                claims.append(Claim(name, said, fit.figure, getattr(measured, fit.figure), span.least, span.most))
        return tuple(claims)
