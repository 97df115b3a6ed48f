"""Columns of a table that label clips: which column labels an attribute, and which class each of its words names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Columns, Entry, plain_name
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Table
from specdec_cli.labels.lexicon import NOT_GIVEN, Lexicon
from specdec_cli.labels.units import folded
from specdec_cli.text import show, show_name

_ALSO_CALLED: Final = {
    "emotion": ("emoclass", "emotionclass", "emotionlabel", "voicevote", "emovote"),
    "voice": ("gender", "sex"),
}
"""Attribute -> further plain names of its column."""
_CORPUS_OF: Final = {"voicevote": "CREMA-D", "emovote": "CREMA-D", "emoclass": "MSP-Podcast"}
"""Plain name of a column -> the corpus that has it."""
_MAY_BE: Final = {
    "rate": ("speakingrate", "speakingspeed", "speed", "tempo"),
    "volume": ("energy", "loudness"),
}
"""Attribute -> plain names of columns that hold its words or measurements: only words count."""
_TIE: Final = re.compile(r"\w(:\w)+")  # of raters, as CREMA-D writes it


def label_column(columns: Columns, attribute: str, lexicon: Lexicon) -> str | None:
    """The column of a table that labels an attribute; None if there is none, or if it holds measurements."""
    plain = plain_name(attribute)
    if column := columns.first((f"c{plain}", f"label{plain}", f"{plain}label", *_ALSO_CALLED.get(attribute, ()))):
        return column
    if not (column := columns.first((plain, *_MAY_BE.get(attribute, ())))):
        return None
    words = _different_words(columns.table, column)
    known = any(lexicon.table_words[attribute].get(word) for word in words)
    return column if known or _corpora_of(words, attribute, lexicon) else None


def _different_words(table: Table, column: str) -> set[str]:
    """The different words of a column, folded, without those that say that there is none."""
    words = {folded(word) for row in table.rows for word in row.cell(column)} - NOT_GIVEN
    return {word for word in words if not _TIE.fullmatch(word)}


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
    hint: str  # for a word that is no label

    @classmethod
    def of(cls, table: Table, attribute: str, column: str, lexicon: Lexicon, corpus: str | None) -> LabelColumn:
        """Reads the words of a column as they are, or by the codes of a corpus.

        That corpus is `corpus`, or else the only one that has codes for all of the words.

        Raises:
            ReferencesError: no corpus of that name has codes; several corpora fit and differ; no word is a label, so
                this is another column.
        """
        hint = (
            f"Classes: {', '.join(lexicon.attributes[attribute])}. Add the word to a lexicon file that extends the "
            "default one, under aliases or, to leave such rows out, under ignored."
        )
        plain, words = lexicon.table_words[attribute], _different_words(table, column)
        codes = lexicon.codes.get(attribute, {})
        if corpus is not None and codes:
            if corpus not in codes:
                known = f"Known are {', '.join(codes)}."
                raise ReferencesError(f"There are no codes of a corpus {show(corpus)}.", hint=known)
            found = cls(attribute, column, {**plain, **codes[corpus]}, corpus, hint)
        else:
            fitting = [] if words <= plain.keys() else _corpora_of(words, attribute, lexicon)
            named = _CORPUS_OF.get(plain_name(column))
            fitting = [name for name in fitting if name == named] or fitting
            if len({tuple(codes[name][word] for word in sorted(words)) for name in fitting}) > 1:
                raise ReferencesError(
                    f"{table.path}, column {show_name(column)}: its labels are codes of {' and of '.join(fitting)}.",
                    hint=f"Say of which corpus: --set judging.label_codes={fitting[0]}.",
                )
            classes = codes[fitting[0]] if fitting else plain
            found = cls(attribute, column, classes, " or ".join(fitting) or None, hint)
        if words and not words & found.classes.keys():
            row = next(row for row in table.rows if row.cell(column))
            unknown = found._unknown(row.cell(column)[0])
            others = f", and none of the column's other {len(words) - 1}" if len(words) > 1 else ""
            raise ReferencesError(f"{row.place}, {unknown}{others}.", hint=hint)
        return found

    def class_of(self, entry: Entry, skips: Skips, *, refuse: bool) -> str | None:
        """The class of a row; None if it has none. An unknown word is counted in `skips`, or refused."""
        word = " ".join(entry.row.cell(self.column)) if entry.row else ""
        plain = folded(word)
        if plain not in self.classes and plain not in NOT_GIVEN and not _TIE.fullmatch(plain):
            if refuse or skips.strict:
                raise ReferencesError(f"{entry.place}, {self._unknown(word)}.", hint=self.hint)
            skips.change(entry.place, self._unknown(word))
        return self.classes.get(plain)

    def _unknown(self, word: str) -> str:
        return f"column {show_name(self.column)}: {self.attribute} has no class or word {show(word)}"
