"""What clips should be captioned as: texts by people, and classes, from a table with one row per clip."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from pathlib import Path, PurePosixPath
from typing import Final

from specdec_cli.config.problems import show, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import FILES, SPEAKERS, Row, Table, read_table, span
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.units import folded

_CLIPS: Final = ("wav", "wav_path", "clip", "key", "id", "utt", "utt_id", "utterance", "utterance_id", "name")
_TEXTS: Final = (r"(captions?|references?|ref|descriptions?)[_ ]?\d*", r"texts?[_ ]?\d*")
"""The second only where a table has none of the first: `text` may be what was spoken."""
_ALIKE_S: Final = 0.5
"""Seconds by which two starts or ends of the same piece may differ."""

_Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What one clip should be captioned as."""

    key: str  # the clip's name in the table
    texts: tuple[str, ...]  # reference captions; empty where the table has none for this clip
    labels: Mapping[str, str]  # attribute -> class, only those that are known
    speaker: str | None = None
    span: tuple[float, float] | None = None  # of the piece of the recording that this is about, s; None: all of it


class References:
    """The references of a set of clips, found by the clips' paths.

    `columns` are those of the table at `path` that they come from: attribute, or `text` -> column.
    """

    def __init__(self, entries: Sequence[Reference], columns: Mapping[str, str], path: Path) -> None:
        self.entries, self.columns, self._path = tuple(entries), columns, path
        self._by_path: defaultdict[_Parts, list[Reference]] = defaultdict(list)
        self._called: defaultdict[str, set[_Parts]] = defaultdict(set)
        for entry in entries:
            parts = _parts(entry.key)
            self._by_path[parts].append(entry)
            for name in (parts[-1], PurePosixPath(parts[-1]).stem):  # an id may have a dot in it
                self._called[name].add(parts)

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        file_column: str | None = None,
        text_columns: Sequence[str] = (),
        label_columns: Mapping[str, str] | None = None,
        lexicon: Lexicon,
    ) -> References:
        """Reads a table (.tsv, .csv, .json or .jsonl).

        Columns that are not named are looked for: `file`, `path`, `audio`, `id` and the like for the clip; `caption`,
        `reference`, `description`, else `text` for texts, also numbered; `c_<attribute>`, `label_<attribute>`, else
        `<attribute>` for classes, if the lexicon knows a word of it (it may hold measurements).

        Raises:
            ReferencesError: the table cannot be read or is malformed; a column is missing; a clip has no name or two
                rows; a word for a class is not known. Names row or column.
        """
        table = read_table(path)
        file, texts, labels = _find_columns(table, file_column, text_columns, label_columns or {}, lexicon)
        named = {**labels, **({"text": ", ".join(texts)} if texts else {})}
        found: dict[tuple[object, ...], Reference] = {}
        for row in table.rows:
            entry = _entry(table, row, file, texts, labels, lexicon)
            if found.setdefault((_parts(entry.key), entry.span), entry) is not entry:
                hint = "Keep one row per clip; several reference texts go into several columns."
                raise ReferencesError(f"{row.place}: {show(entry.key)} has a row already.", hint=hint)
        return cls([*found.values()], named, path)

    def find(self, file: str, start_s: float | None = None, end_s: float | None = None) -> Reference | None:
        """The reference of a recording, or of a piece of it; None if there is none.

        Tried in this order: the path as given; the entry that shares most trailing parts of the path, the file's name
        at least, if no other shares as many; the file's name without its ending, if only one entry is called so. Of
        rows about pieces of it, the nearest to `start_s` and `end_s` counts, each within half a second; a row about
        the whole recording counts for every piece.
        """
        alike, whole = [], None
        for entry in self._of(file):
            if entry.span is None:
                whole = entry
            elif start_s is not None and end_s is not None:
                off = max(abs(entry.span[0] - start_s), abs(entry.span[1] - end_s))
                alike += [(off, entry)] if off <= _ALIKE_S else []
        return min(alike, key=lambda pair: pair[0])[1] if alike else whole

    def require_some(self, files: Sequence[str]) -> None:
        """Raises ReferencesError if the table has a row about none of these recordings."""
        if files and not any(self._of(file) for file in files):
            raise ReferencesError(
                f"0 of {len(files)} recordings were found in {self._path}.",
                hint=f"The first recording is {show(files[0])} and the first row is about {show(self.entries[0].key)}: "
                "names or ends of paths have to agree. --file-column names another column.",
            )

    def _of(self, file: str) -> Sequence[Reference]:
        """The entries of a recording and its pieces."""
        parts = _parts(file)
        if parts in self._by_path:
            return self._by_path[parts]
        alike = self._called.get(parts[-1]) or self._called.get(PurePosixPath(parts[-1]).stem, set())
        shared = {other: sum(takewhile(bool, map(eq, parts[::-1], other[::-1]))) for other in alike}
        found = [other for other, count in shared.items() if count == max(shared.values())]
        return self._by_path[found[0]] if len(found) == 1 else ()


def _parts(path: str) -> _Parts:
    text = unicodedata.normalize("NFC", path).replace("\\", "/")
    return PurePosixPath(text).parts or ("",)


def _find_columns(
    table: Table, file: str | None, texts: Sequence[str], labels: Mapping[str, str], lexicon: Lexicon
) -> tuple[str, Sequence[str], Mapping[str, str]]:
    """The columns of the file, of texts and of labels as named, or else those that are called accordingly."""
    hint = (
        f"Its columns: {', '.join(map(show_name, table.columns))}. "
        "Name them with --file-column, --text-column and --label-column ATTRIBUTE=COLUMN."
    )
    missing = {file, *texts, *labels.values()} - {None, *table.columns}
    if missing:
        raise ReferencesError(f"{table.path} has no column {show_name(str(missing.pop()))}.", hint=hint)
    if (file := file or table.first(FILES + _CLIPS)) is None:
        raise ReferencesError(f"{table.path} has no column that names the clip.", hint=hint)
    found = {attribute: _label_column(table, attribute, lexicon) for attribute in lexicon.attributes}
    labels = {**{attribute: column for attribute, column in found.items() if column}, **labels}
    groups = ([name for name in table.columns if re.fullmatch(pattern, name.casefold())] for pattern in _TEXTS)
    texts = texts or next(filter(None, groups), ())
    if not texts and not labels:
        raise ReferencesError(f"{table.path} has neither reference texts nor labels.", hint=hint)
    return file, texts, labels


def _label_column(table: Table, attribute: str, lexicon: Lexicon) -> str | None:
    """A column of classes; one that is merely called like the attribute may hold measurements instead."""
    if (column := table.first((f"c_{attribute}", f"label_{attribute}"))) or not (column := table.first((attribute,))):
        return column
    words = (folded(word) for row in table.rows for word in row.cells.get(column, ()))
    return column if any(lexicon.table_words[attribute].get(word) for word in words) else None


def _entry(
    table: Table, row: Row, file: str, texts: Sequence[str], labels: Mapping[str, str], lexicon: Lexicon
) -> Reference:
    if (key := row.single(file)) is None:
        message = f"{row.place}: column {show_name(file)} is empty, so the row belongs to no clip."
        raise ReferencesError(message, hint="Name the clip, or delete the row.")
    start, end, speaker = (row.single(table.first(names)) for names in (("start_s",), ("end_s",), SPEAKERS))
    classes = {}
    for attribute, column in labels.items():
        word, words = row.single(column) or "", lexicon.table_words[attribute]
        if folded(word) not in words:
            raise ReferencesError(
                f"{row.place}, column {show_name(column)}: {attribute} has no class or word {show(word)}.",
                hint=f"Classes: {', '.join(lexicon.attributes[attribute])}. Add the word to a lexicon file that "
                "extends the default one, under aliases or, to leave such rows out, under ignored.",
            )
        if class_ := words[folded(word)]:
            classes[attribute] = class_
    captions = tuple(text for column in texts for text in row.cells.get(column, ()))
    return Reference(key, captions, classes, speaker, span(row.place, start, end) if start or end else None)
