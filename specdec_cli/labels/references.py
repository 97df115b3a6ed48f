"""What clips should be captioned as: texts by people, and classes, from a table with one row per clip."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import CLIPS, Columns, Entry, plain_name
from specdec_cli.inputs.names import ByRecording, parts_of
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Table, read_table
from specdec_cli.labels.lexicon import NOT_GIVEN, Lexicon
from specdec_cli.labels.units import folded
from specdec_cli.prompts import Language
from specdec_cli.reading import language_of
from specdec_cli.text import show, show_name
from specdec_cli.transcript.records import TranscriptHead

_TEXTS: Final = (
    re.compile(r"(captions?|references?|ref|(text_)?descriptions?|style_prompts?)([_ ]?(zh|en|\d+))*", re.IGNORECASE),
    re.compile(r"texts?[_ ]?\d*", re.IGNORECASE),
)
"""The second only where a table has none of the first: `text` may be what was spoken."""
_ALSO_CALLED: Final = {
    "emotion": ("emoclass", "emotionclass", "emotionlabel", "voicevote", "emovote"),
    "voice": ("gender", "sex"),
}
_CORPUS_OF: Final = {"voicevote": "CREMA-D", "emovote": "CREMA-D", "emoclass": "MSP-Podcast"}
_MAY_BE: Final = {
    "rate": ("speakingrate", "speakingspeed", "speed", "tempo"),
    "volume": ("energy", "loudness"),
}
"""Columns of these names count where they hold words: they may hold measurements."""
_TIE: Final = re.compile(r"\w(:\w)+")  # of raters, as CREMA-D writes it
_ALIKE_S: Final = 0.5
"""Seconds by which two starts or ends of the same piece may differ."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What one clip should be captioned as."""

    key: str  # the clip's name in the table
    texts: tuple[str, ...]  # reference captions; empty where the table has none for this clip
    labels: Mapping[str, str]  # attribute -> class, only those that are known
    speaker: str | None = None
    span: tuple[float, float] | None = None  # of the piece that this is about, s, maybe infinite; None: all of it
    channel: int | None = None  # 1-based

    def texts_in(self, language: Language) -> tuple[str, ...]:
        """The reference captions that are in a language, or too short to tell."""
        return tuple(text for text in self.texts if language_of(text) in (language, None))


class References:
    """The references of a set of clips, found by the clips' paths.

    Attributes:
        entries: in the order of the table.
        columns: attribute, or `text` -> column of the table at `path`.
        codes: attribute -> corpus by the codes of which its column was read.
        skips: rows and labels that were left out.
    """

    def __init__(
        self,
        entries: Sequence[Reference],
        columns: Mapping[str, str],
        path: Path,
        *,
        codes: Mapping[str, str] | None = None,
        skips: Skips | None = None,
    ) -> None:
        self.entries, self.columns, self._path = tuple(entries), columns, path
        self.codes: Mapping[str, str] = codes or {}
        self.skips = Skips() if skips is None else skips
        self._by_recording = ByRecording[Reference](path)
        for entry in entries:
            self._by_recording.add(entry.key, entry)

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        file_column: str | None = None,
        text_columns: Sequence[str] = (),
        label_columns: Mapping[str, str] | None = None,
        lexicon: Lexicon,
        strict: bool = False,
        refuse_unknown: bool = False,
        label_codes: str | None = None,
    ) -> References:
        """Reads a table (.tsv, .csv, .json or .jsonl).

        Columns that are not named are looked for: `file`, `path`, `audio`, `id` and the like for the clip; `caption`,
        `reference`, `description`, else `text` for texts, also numbered; `c_<attribute>`, `label_<attribute>`, else
        `<attribute>` for classes, if the lexicon knows a word of it (it may hold measurements).

        Args:
            strict: whether a row or label that would be left out is refused instead.
            refuse_unknown: whether a word that is no label is refused; else it costs its label.
            label_codes: corpus by the codes of which labels are written; None: that which has all codes of a column.

        Raises:
            ReferencesError: the table cannot be read; a column is missing; no row names a clip; no word of a column is
                known; its codes are those of several corpora. Names row or column.
        """
        skips = Skips(strict)
        table = read_table(path, skips)
        columns, texts, named = _find_columns(table, file_column, text_columns, label_columns or {}, lexicon)
        labels = [_LabelColumn.of(table, *item, lexicon, label_codes) for item in named.items()]
        for label in labels:
            label.require_known(table)
        codes = {each.attribute: each.corpus for each in labels if each.corpus is not None}
        found: dict[tuple[object, ...], Reference] = {}
        for entry in columns.entries(skips):
            if entry.file is None:
                column = show_name(str(columns.file))
                skips.leave_out(entry.place, f"column {column} is empty, so the row belongs to no clip")
                continue
            part = None if entry.start_s is None else (entry.start_s, math.inf if entry.end_s is None else entry.end_s)
            channel = None if entry.channel is None else entry.channel + 1
            key = parts_of(entry.file), part, entry.speaker, channel
            if key in found:
                why = f"{show(entry.file)} has a row already; several texts of one clip go into several columns"
                skips.leave_out(entry.place, why)
                continue
            classes = {each.attribute: each.class_of(entry, skips, refuse=refuse_unknown) for each in labels}
            known = {attribute: class_ for attribute, class_ in classes.items() if class_ is not None}
            captions = tuple(text for column in texts for text in entry.row.cell(column)) if entry.row else ()
            found[key] = Reference(entry.file, captions, known, entry.speaker, part, channel)
        skips.require_some(found, f"{path} has no row about a clip.", "It needs a row per clip.")
        read = {**named, **({"text": ", ".join(texts)} if texts else {})}
        return cls([*found.values()], read, path, codes=codes, skips=skips)

    def find(
        self,
        file: str,
        start_s: float | None = None,
        end_s: float | None = None,
        *,
        speaker: str | None = None,
        channel: int | None = None,
    ) -> Reference | None:
        """The reference of a recording, or of a piece of it; None if there is none.

        A recording is found by its path as far as the table gives one, and then by its name, if only one path has it;
        an ending may be missing. Of rows about pieces of it, the nearest to `start_s` and `end_s` counts, each within
        half a second; a row about the whole recording counts for every piece. Rows about the speaker or the channel
        (1-based) of the piece come first, then those that name none; of several others just as near, none counts.

        Raises:
            ReferencesError: several paths of the table may be this recording's.
        """
        near, whole = list[tuple[float, Reference]](), list[tuple[float, Reference]]()
        for entry in self._by_recording.of(file):
            if entry.span is None:
                whole.append((0.0, entry))
            elif start_s is not None and end_s is not None:
                until = end_s if entry.span[1] == math.inf else entry.span[1]
                off = max(abs(entry.span[0] - start_s), abs(until - end_s))
                near += [(off, entry)] if off <= _ALIKE_S else []
        left = near or whole
        for name, wanted in (("speaker", _name(speaker)), ("channel", channel)):
            of = [(_name(getattr(entry, name)), off, entry) for off, entry in left]
            own = [(off, entry) for known, off, entry in of if wanted is not None and known == wanted]
            left = own or [(off, entry) for known, off, entry in of if known is None] or left
        nearest = [entry for off, entry in left if off == min(left, key=itemgetter(0))[0]]
        return nearest[0] if len(nearest) == 1 else None

    def of(self, run: TranscriptHead) -> Reference | None:
        """The reference of the clip that a transcript is of; see `find`."""
        return self.find(run.file, run.start_s, run.end_s, speaker=run.speaker, channel=run.channel)

    def require_some(self, files: Sequence[str]) -> None:
        """Raises ReferencesError if the table has a row about none of these recordings; see `ByRecording.expect`."""
        self._by_recording.expect(files)
        if files and not any(self._by_recording.of(file) for file in files):
            raise ReferencesError(
                f"0 of {len(files)} recordings were found in {self._path}.",
                hint=f"The first recording is {show(files[0])} and the first row is about {show(self.entries[0].key)}: "
                "names or ends of paths have to agree. --column file=NAME names another column.",
            )

    def said(self) -> str:
        """Which columns were read, and by the codes of which corpus: for a command to print."""
        read = [f"{name} from {column}" for name, column in self.columns.items()]
        read += [f"{attribute} by the codes of {corpus}" for attribute, corpus in self.codes.items()]
        return f"{self._path}: {', '.join(read)}"


def _name(value: object) -> object:
    """A speaker as any format may write the name."""
    return "_".join(value.casefold().split()) if isinstance(value, str) else value


def _find_columns(
    table: Table, file: str | None, texts: Sequence[str], labels: Mapping[str, str], lexicon: Lexicon
) -> tuple[Columns, Sequence[str], Mapping[str, str]]:
    """The columns of the file, of texts and of labels as named, or else those that are called accordingly."""
    hint = (
        f"Its columns: {', '.join(map(show_name, table.columns))}. "
        "Name them with --column file=NAME, --column text=NAME or --column emotion=NAME."
    )
    missing = {file, *texts, *labels.values()} - {None, *table.columns}
    if missing:
        raise ReferencesError(f"{table.path} has no column {show_name(str(missing.pop()))}.", hint=hint)
    columns = Columns(table, file=file, clips=CLIPS)
    if columns.file is None:
        message = f"{table.path} has no column that names the clip."
        raise ReferencesError(message, hint=f"The first line has to hold the names of the columns. {hint}")
    found = {attribute: _label_column(table, columns, attribute, lexicon) for attribute in lexicon.attributes}
    labels = {**{attribute: column for attribute, column in found.items() if column}, **labels}
    groups = ([name for name in table.columns if pattern.fullmatch(name)] for pattern in _TEXTS)
    texts = texts or next(filter(None, groups), ())
    if not texts and not labels:
        raise ReferencesError(f"{table.path} has neither reference texts nor labels.", hint=hint)
    return columns, texts, labels


def _label_column(table: Table, columns: Columns, attribute: str, lexicon: Lexicon) -> str | None:
    """A column of classes; one that is merely called like the attribute may hold measurements instead."""
    plain = plain_name(attribute)
    if column := columns.first((f"c{plain}", f"label{plain}", f"{plain}label", *_ALSO_CALLED.get(attribute, ()))):
        return column
    if not (column := columns.first((plain, *_MAY_BE.get(attribute, ())))):
        return None
    written = _written(table, column)
    known = any(lexicon.table_words[attribute].get(word) for word in written)
    return column if known or _sets_of(written, attribute, lexicon) else None


def _written(table: Table, column: str) -> set[str]:
    """The different words of a column, folded, without what says that there is none."""
    found = {folded(word) for row in table.rows for word in row.cell(column)} - NOT_GIVEN
    return {word for word in found if not _TIE.fullmatch(word)}


def _sets_of(written: set[str], attribute: str, lexicon: Lexicon) -> list[str]:
    """The corpora that have all of these words among their codes."""
    return [name for name, words in lexicon.codes.get(attribute, {}).items() if written and written <= words.keys()]


@dataclass(frozen=True, slots=True)
class _LabelColumn:
    """A column of labels, and the class that each word of it names: none for an ignored one."""

    attribute: str
    column: str
    words: Mapping[str, str | None]
    corpus: str | None  # the corpus the codes of which its words are, where they are no plain words
    hint: str  # for a word that is no label

    @classmethod
    def of(cls, table: Table, attribute: str, column: str, lexicon: Lexicon, corpus: str | None) -> _LabelColumn:
        """Reads its words as they are, or by the codes of `corpus` or of the only corpus that has all of them."""
        hint = (
            f"Classes: {', '.join(lexicon.attributes[attribute])}. Add the word to a lexicon file that extends the "
            "default one, under aliases or, to leave such rows out, under ignored."
        )
        plain, sets, written = lexicon.table_words[attribute], lexicon.codes.get(attribute, {}), _written(table, column)
        if corpus is not None and sets:
            if corpus not in sets:
                known = f"Known are {', '.join(sets)}."
                raise ReferencesError(f"There are no codes of a corpus {show(corpus)}.", hint=known)
            return cls(attribute, column, {**plain, **sets[corpus]}, corpus, hint)
        fitting = [] if written <= plain.keys() else _sets_of(written, attribute, lexicon)
        if not fitting:
            return cls(attribute, column, plain, None, hint)
        if (of := _CORPUS_OF.get(plain_name(column))) in fitting:
            return cls(attribute, column, sets[str(of)], of, hint)
        if len({tuple(sets[name][word] for word in sorted(written)) for name in fitting}) > 1:
            message = f"{table.path}, column {show_name(column)}: its labels are codes of {' and of '.join(fitting)}."
            raise ReferencesError(message, hint=f"Say of which corpus: --set judging.label_codes={fitting[0]}.")
        return cls(attribute, column, sets[fitting[0]], " or ".join(fitting), hint)

    def require_known(self, table: Table) -> None:
        """Raises ReferencesError for a column of which no word is a label: it is another column."""
        written = _written(table, self.column)
        if written and not written & self.words.keys():
            row = next(row for row in table.rows if row.cell(self.column))
            unknown = self._unknown(row.cell(self.column)[0])
            message = f"{row.place}, {unknown}, and none of the column's other {len(written) - 1}."
            raise ReferencesError(message, hint=self.hint)

    def class_of(self, entry: Entry, skips: Skips, *, refuse: bool) -> str | None:
        """The class of a row; an unknown one is left out, or refused."""
        word = " ".join(entry.row.cell(self.column)) if entry.row else ""
        plain = folded(word)
        if plain not in self.words and plain not in NOT_GIVEN and not _TIE.fullmatch(plain):
            if refuse or skips.strict:
                raise ReferencesError(f"{entry.place}, {self._unknown(word)}.", hint=self.hint)
            skips.change(entry.place, self._unknown(word))
        return self.words.get(plain)

    def _unknown(self, word: str) -> str:
        return f"column {show_name(self.column)}: {self.attribute} has no class or word {show(word)}"
