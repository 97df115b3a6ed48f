"""Columns of a table that label clips: which column labels an attribute, and which class each of its words names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Columns, Entry, plain_name
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Cell, Table
from specdec_cli.labels.lexicon import NOT_GIVEN, Lexicon
from specdec_cli.labels.units import folded
from specdec_cli.text import show, show_name

Vote = tuple[str | None, str]
"""The class that a rater names, or None for a word that names none, and the word."""

_ALSO_CALLED: Final = {
    "voice": ("gender", "sex"),
    "rate": ("speakingrate", "speed"),
    "volume": ("energy", "loudness"),
}
"""Attribute -> further plain names of its column. Such a column may hold measurements, so only words are read."""
_OF_RATERS: Final = re.compile(r"\w(:\w)+")  # votes of several raters in one cell, as CREMA-D writes them
TIE: Final = "a tie of raters"


def label_column(columns: Columns, attribute: str, lexicon: Lexicon) -> str | None:
    """The column of a table that labels an attribute; None if there is none, or if it holds measurements."""
    plain = plain_name(attribute)
    if column := columns.first((f"c{plain}", f"label{plain}", f"{plain}label")):
        return column
    if not (column := columns.first((plain, *_ALSO_CALLED.get(attribute, ())))):
        return None
    words = set(_words(columns.table, column))
    known = any(lexicon.table_words[attribute].get(word) for word in words)
    return column if known or _corpora_of(words, attribute, lexicon) else None


def unread_words(columns: Columns, attribute: str, lexicon: Lexicon) -> str | None:
    """The column called like an attribute, if it holds words and `label_column` does not take it; else None."""
    column = columns.first((plain_name(attribute),))
    if column is None or label_column(columns, attribute, lexicon):
        return None
    words = set(_words(columns.table, column))
    return column if words and all(any(map(str.isalpha, word)) for word in words) else None


def decided(votes: Sequence[Vote]) -> Vote:
    """The class that most votes name, with the first word for it; a tie names no class."""
    (first, most), *others = Counter(class_ or word for class_, word in votes).most_common(2)
    if others and others[0][1] == most:
        return None, TIE
    return next((class_, word) for class_, word in votes if first in (class_, word))


def _words(table: Table, column: str) -> Iterator[str]:
    """The words of a column, folded, without those for an empty cell."""
    words = (folded(word) for row in table.rows for word in _raters(row.cell(column)))
    return (word for word in words if word not in NOT_GIVEN)


def _raters(cell: Cell) -> Iterator[str]:
    """The words of a cell."""
    for word in cell:
        yield from word.split(":") if _OF_RATERS.fullmatch(word) else (word,)


def _corpora_of(words: set[str], attribute: str, lexicon: Lexicon) -> list[str]:
    """The corpora that have all of these words among their codes."""
    return [name for name, codes in lexicon.codes.get(attribute, {}).items() if words and words <= codes.keys()]


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """A column of labels, and the class that each word of it names; None for a word that is ignored."""

    attribute: str
    column: str
    classes: Mapping[str, str | None]  # folded word -> class
    corpus: str | None  # the corpus whose codes the words are; None: they are plain words
    hint: str  # for a word that is not a label

    @classmethod
    def of(cls, table: Table, attribute: str, column: str, lexicon: Lexicon, corpus: str | None) -> LabelColumn:
        """Reads the words of a column as they are, or by the codes of a corpus.

        That corpus is `corpus`, or else the only one that has codes for all of the words.

        Raises:
            ReferencesError: no corpus of that name has codes; several corpora fit and differ; no word is a label, or
                most are none and the others name one class, so this is another column or another language.
        """
        hint = (
            f"Classes: {', '.join(lexicon.attributes[attribute])}. Add the word to a lexicon file that extends the "
            "default one, under aliases or, to leave such rows out, under ignored."
        )
        plain, counts = lexicon.table_words[attribute], Counter(_words(table, column))
        codes = lexicon.codes.get(attribute, {})
        if corpus is not None and codes:
            if corpus not in codes:
                known = f"Known are {', '.join(codes)}."
                raise ReferencesError(f"There are no codes of a corpus {show(corpus)}.", hint=known)
            found = cls(attribute, column, {**plain, **codes[corpus]}, corpus, hint)
        else:
            fitting = [] if counts.keys() <= plain.keys() else _corpora_of({*counts}, attribute, lexicon)
            if len({tuple(codes[name][word] for word in sorted(counts)) for name in fitting}) > 1:
                raise ReferencesError(
                    f"{table.path}, column {show_name(column)}: its labels are codes of {' and of '.join(fitting)}.",
                    hint=f"Say of which corpus: --set judging.label_codes={fitting[0]}.",
                )
            classes = codes[fitting[0]] if fitting else plain
            found = cls(attribute, column, classes, " or ".join(fitting) or None, hint)
        found._require_labels(table, counts)
        return found

    def votes(self, entry: Entry, skips: Skips) -> list[Vote]:
        """What the words in a row name. An unknown word is counted in `skips`, which may refuse it."""
        votes = list[Vote]()
        for word in _raters(entry.row.cell(self.column)) if entry.row else ():
            plain = folded(word)
            class_ = self.classes.get(plain)
            if class_ is None and plain in NOT_GIVEN:
                continue
            if plain not in self.classes:
                if skips.strict:
                    raise ReferencesError(f"{entry.place}, {self._unknown(word)}.", hint=self.hint)
                skips.change(entry.place, self._unknown(word))
            votes.append((class_, plain))
        return votes

    def _require_labels(self, table: Table, counts: Counter[str]) -> None:
        """Raises ReferencesError if figures would be about no class, or about one class of another language."""
        unknown = [word for word in counts if word not in self.classes]
        named = {class_ for word in counts if (class_ := self.classes.get(word)) is not None}
        of_labels = counts.total() - sum(counts[word] for word in unknown)
        if not unknown or (of_labels and (len(named) > 1 or 2 * of_labels >= counts.total())):
            return
        row = next(row for row in table.rows if any(folded(word) in unknown for word in _raters(row.cell(self.column))))
        first = next(word for word in _raters(row.cell(self.column)) if folded(word) in unknown)
        others = f", nor have {len(unknown) - 1} others of its {len(counts)} words" if len(unknown) > 1 else ""
        raise ReferencesError(f"{row.place}, {self._unknown(first)}{others}.", hint=self.hint)

    def _unknown(self, word: str) -> str:
        return f"column {show_name(self.column)}: {self.attribute} has no class or word {show(word)}"
