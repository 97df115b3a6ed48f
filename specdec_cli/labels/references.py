"""What clips should be captioned as: texts by people, and classes, from a table with one row per clip."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Final

from specdec_cli.config.problems import show, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import Table, read_table, span
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.lexicon_file import suggestion
from specdec_cli.labels.reference_columns import Columns, find_columns

_Parts = tuple[str, ...]
_LISTED: Final = 8
_ALIKE: Final = 0.5
"""Share of two pieces' joint length that they have in common, from which they are the same piece."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What one clip should be captioned as.

    Attributes:
        key: the clip's name in the table.
        texts: reference captions; empty where the table has none for this clip.
        labels: attribute -> class, only those that are known.
        speaker: who speaks, if the table has it.
        span: start and end of the piece of the recording that this is about, s; None: all of it.
    """

    key: str
    texts: tuple[str, ...]
    labels: Mapping[str, str]
    speaker: str | None = None
    span: tuple[float, float] | None = None


class References:
    """The references of a set of clips, found by the clips' paths.

    Args:
        entries: one per clip.
        columns: the table's columns that they come from.
        path: of the table, for messages.
    """

    def __init__(self, entries: Sequence[Reference], columns: Columns, path: Path) -> None:
        self._path = path
        self.entries = tuple(entries)
        self.columns = columns
        self._by_path: dict[_Parts, list[Reference]] = defaultdict(list)
        for entry in entries:
            self._by_path[_parts(entry.key)].append(entry)
        self._called: dict[str, list[_Parts]] = defaultdict(list)
        for parts in self._by_path:
            for name in {parts[-1], PurePosixPath(parts[-1]).stem}:  # an id may have a dot in it
                self._called[name].append(parts)

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
        `<attribute>` for classes. A column that is merely called like an attribute, and of whose words the lexicon
        knows none, is left alone: it may hold measurements.

        Args:
            path: the table.
            file_column, text_columns, label_columns: see `Columns`.
            lexicon: knows attributes, classes and words.

        Raises:
            ReferencesError: the table cannot be read or is malformed; a column is missing; a clip has no name or two
                rows; a word for a class is not known. Names row and column.
        """
        table = read_table(path)
        columns = find_columns(table, file_column, text_columns, label_columns or {}, lexicon)
        return cls(_entries(table, columns, lexicon), columns, path)

    def find(self, file: str, start_s: float | None = None, end_s: float | None = None) -> Reference | None:
        """The reference of a recording, or of a piece of it; None if there is none.

        Tried in this order: the path as given; the entry that shares most trailing parts of the path, the file's name
        at least, if no other shares as many; the file's name without its ending, if only one entry is called so. Of
        rows about pieces of it, the one that has most in common with the piece counts, if that is half of both or
        more; a row about the whole recording counts for every piece.

        Args:
            file: path of the recording.
            start_s, end_s: of the piece; None: the whole recording.
        """
        found = self._of(file)
        if start_s is None or end_s is None:
            return next((entry for entry in found if entry.span is None), None)
        alike = [(_in_common(entry.span, (start_s, end_s)), entry) for entry in found if entry.span is not None]
        share, best = max(alike, key=lambda pair: pair[0], default=(0.0, None))
        return best if share >= _ALIKE else next((entry for entry in found if entry.span is None), None)

    def require_some(self, files: Sequence[str]) -> None:
        """Raises ReferencesError if the table has a row about none of these recordings."""
        if files and self.entries and not any(self._of(file) for file in files):
            raise ReferencesError(
                f"0 of {len(files)} recordings were found in {self._path}.",
                hint=f"The first recording is {show(files[0])} and the first row is about {show(self.entries[0].key)}: "
                f"names or ends of paths have to agree. They were read from column "
                f"{show_name(self.columns.file)}; --file-column names another.",
            )

    def _of(self, file: str) -> Sequence[Reference]:
        """The entries of a recording and its pieces."""
        parts = _parts(file)
        if parts in self._by_path:
            return self._by_path[parts]
        name = parts[-1]
        alike = self._called.get(name) or self._called.get(PurePosixPath(name).stem, [])
        most = max((_trailing(parts, other) for other in alike), default=0)
        found = [other for other in alike if _trailing(parts, other) == most]
        return self._by_path[found[0]] if len(found) == 1 else ()


def _in_common(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Common length of two pieces over their joint length, 0 to 1."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(common, 0.0) / (max(one[1], other[1]) - min(one[0], other[0]))


def _parts(path: str) -> _Parts:
    text = unicodedata.normalize("NFC", path).replace("\\", "/")
    return PurePosixPath(text).parts or ("",)


def _trailing(one: _Parts, other: _Parts) -> int:
    """How many parts two paths share at their ends."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _entries(table: Table, columns: Columns, lexicon: Lexicon) -> list[Reference]:
    entries: list[Reference] = []
    first: dict[tuple[object, ...], str] = {}
    unknown: dict[tuple[str, str], list[str]] = defaultdict(list)  # attribute and word -> where it stands
    for row in table.rows:
        key = row.single(columns.file)
        if key is None:
            raise ReferencesError(
                f"{row.place}: column {show_name(columns.file)} is empty, so the row belongs to no clip.",
                hint="Name the clip, or delete the row.",
            )
        ends = [row.single(column) for column in columns.span or ()]
        piece = span(row.place, *ends) if any(ends) else None
        if (known := first.setdefault((_parts(key), piece), row.place)) != row.place:
            raise ReferencesError(
                f"{row.place}: {show(key)} has a row already, {known}.",
                hint="Keep one row per clip; several reference texts go into several columns.",
            )
        labels = {}
        for attribute, column in columns.labels.items():
            word = row.single(column) or ""
            if class_ := lexicon.canonical(attribute, word):
                labels[attribute] = class_
            elif not lexicon.ignores(attribute, word):
                unknown[attribute, word].append(f"{row.place}, column {show_name(column)}")
        texts = tuple(text for column in columns.texts for text in row.cells.get(column, ()))
        speaker = row.single(columns.speaker) if columns.speaker else None
        entries.append(Reference(key, texts, labels, speaker, piece))
    if unknown:
        raise _unknown(unknown, lexicon)
    return entries


def _unknown(places: Mapping[tuple[str, str], Sequence[str]], lexicon: Lexicon) -> ReferencesError:
    """Words for classes that the lexicon does not know, all of them at once."""
    commonest = sorted(places, key=lambda pair: -len(places[pair]))
    attribute, word = commonest[0]
    listed = [f"{show(other)} ({name}, {len(places[name, other])} times)" for name, other in commonest]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ReferencesError(
        f"{places[attribute, word][0]}: {attribute} has no class or word {show(word)}.",
        hint=f"{suggestion(word, lexicon.attributes[attribute])}Words that are not known: "
        f"{', '.join(listed[:_LISTED])}{more}. Add them to a lexicon file that extends the default one, under aliases "
        "or, to leave such rows out, under ignored; or name another column.",
    )
