"""What clips should be captioned as: texts by people, and classes, from a table with one row per clip."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from specdec_cli.config.problems import nearest, show, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import FILES, Row, Table, read_table
from specdec_cli.labels import Lexicon
from specdec_cli.times import seconds

_LISTED = 8
_CLIPS: Final = ("wav", "wav_path", "clip", "key", "id", "utt", "utt_id", "utterance", "utterance_id", "name")
_SPEAKERS: Final = ("speaker", "speaker_id", "spk", "spk_id")
_TEXTS: Final = (
    ("caption", "captions", "reference", "references", "ref", "description", "descriptions"),
    ("text", "texts"),
)
"""The second group only where a table has none of the first: `text` may be what was spoken."""
_ALIKE: Final = 0.5
"""Share of two pieces' joint length that they have in common, from which they are the same piece."""
_NUMBER: Final = re.compile(r"[_ ]?\d+$")


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table by what they hold.

    Attributes:
        file: the clip's path, name or id.
        texts: reference captions.
        labels: attribute -> column with its class, in the lexicon's words or their aliases.
        speaker: who speaks, or None.
        start, end: where in the recording the piece is that a row is about, s; None: rows are about recordings.
    """

    file: str
    texts: tuple[str, ...]
    labels: Mapping[str, str]
    speaker: str | None = None
    start: str | None = None
    end: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """What is read from which column: each attribute, and `text`."""
        return {**self.labels, **({"text": ", ".join(self.texts)} if self.texts else {})}


@dataclass(frozen=True, slots=True)
class Reference:
    """What one clip should be captioned as.

    Attributes:
        key: the clip's name in the table.
        texts: reference captions; empty where the table has none for this clip.
        labels: attribute -> class, only those that are known.
        speaker: who speaks, if the table says so.
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

    def __init__(self, entries: Sequence[Reference], columns: Columns, path: Path = Path("the references")) -> None:
        self._path = path
        self.entries = tuple(entries)
        self.columns = columns
        pieces: dict[tuple[str, ...], list[Reference]] = defaultdict(list)
        for entry in entries:
            pieces[_parts(entry.key)].append(entry)
        self._by_key = {parts: tuple(found) for parts, found in pieces.items()}
        self._by_name: dict[str, list[tuple[tuple[str, ...], tuple[Reference, ...]]]] = defaultdict(list)
        self._by_stem: dict[str, list[tuple[Reference, ...]]] = defaultdict(list)
        for parts, found in self._by_key.items():
            self._by_name[parts[-1]].append((parts, found))
            for name in {parts[-1], PurePosixPath(parts[-1]).stem}:  # an id may have a dot in it
                self._by_stem[name].append(found)

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
        columns = _find_columns(table, file_column, text_columns, label_columns or {}, lexicon)
        _require_known_words(table, columns, lexicon)
        return cls(list(_entries(table, columns, lexicon)), columns, path)

    def __len__(self) -> int:
        return len(self.entries)

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

    def _of(self, file: str) -> tuple[Reference, ...]:
        """The entries of a recording and its pieces."""
        parts = _parts(file)
        if parts in self._by_key:
            return self._by_key[parts]
        shared = [(_trailing(parts, other), found) for other, found in self._by_name.get(parts[-1], [])]
        if shared:
            most = max(count for count, _ in shared)
            best = [found for count, found in shared if count == most]
            return best[0] if len(best) == 1 else ()
        same = self._by_stem.get(PurePosixPath(parts[-1]).stem, [])
        return same[0] if len(same) == 1 else ()


def _in_common(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Common length of two pieces over their joint length, 0 to 1."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(common, 0.0) / (max(one[1], other[1]) - min(one[0], other[0]))


def _parts(path: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFC", path).replace("\\", "/")
    return PurePosixPath(text).parts or ("",)


def _trailing(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths share at their ends."""
    count = 0
    for ours, theirs in zip(reversed(one), reversed(other), strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _entries(table: Table, columns: Columns, lexicon: Lexicon) -> Iterator[Reference]:
    first: dict[tuple[object, ...], str] = {}
    for row in table.rows:
        key = row.single(columns.file)
        if key is None:
            raise ReferencesError(
                f"{row.place}: column {show_name(columns.file)} is empty, so the row belongs to no clip.",
                hint="Name the clip, or delete the row.",
            )
        span = _span(row, columns)
        if (known := first.setdefault((_parts(key), span), row.place)) != row.place:
            raise ReferencesError(
                f"{row.place}: {show(key)} has a row already, {known}.",
                hint="Keep one row per clip; several reference texts go into several columns.",
            )
        labels = {
            attribute: class_
            for attribute, column in columns.labels.items()
            if (word := row.single(column)) and (class_ := lexicon.canonical(attribute, word))
        }
        texts = tuple(text for column in columns.texts for text in row.cells.get(column, ()))
        speaker = row.single(columns.speaker) if columns.speaker else None
        yield Reference(key, texts, labels, speaker, span)


def _span(row: Row, columns: Columns) -> tuple[float, float] | None:
    """Start and end of the piece that a row is about, s; None: the whole recording.

    Raises:
        ReferencesError: one of them is missing or no number, or the piece ends before it begins.
    """
    if columns.start is None or columns.end is None:
        return None
    cells = [row.single(column) for column in (columns.start, columns.end)]
    if cells == [None, None]:
        return None
    start, end = map(seconds, cells)
    if start is None or end is None or not start < end:
        raise ReferencesError(
            f"{row.place}: {show(cells[0])} to {show(cells[1])} is no piece of a recording.",
            hint="Give both ends in seconds, or leave both empty for the whole recording.",
        )
    return start, end


def _require_known_words(table: Table, columns: Columns, lexicon: Lexicon) -> None:
    """Refuses words for classes that the lexicon does not know, all of them at once."""
    unknown: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for row in table.rows:
        for attribute, column in columns.labels.items():
            word = row.single(column)
            if word and not lexicon.canonical(attribute, word) and not lexicon.ignores(attribute, word):
                unknown[attribute, word] += 1
                first.setdefault((attribute, word), f"{row.place}, column {show_name(column)}")
    if not unknown:
        return
    (attribute, word), _ = unknown.most_common(1)[0]
    close = nearest(word, lexicon.attributes[attribute])
    listed = [f"{show(word)} ({attribute}, {count} times)" for (attribute, word), count in unknown.most_common(_LISTED)]
    more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
    raise ReferencesError(
        f"{first[attribute, word]}: {attribute} has no class or word {show(word)}.",
        hint=(f"Did you mean {close}? " if close else "")
        + f"Words that are not known: {', '.join(listed)}{more}. Add them to a lexicon file that extends the default "
        "one, under aliases or, to leave such rows out, under ignored; or name another column.",
    )


def _find_columns(
    table: Table,
    file_column: str | None,
    text_columns: Sequence[str],
    label_columns: Mapping[str, str],
    lexicon: Lexicon,
) -> Columns:
    """The columns as named, and for what is not named those that are called accordingly.

    Raises:
        ReferencesError: a named column or attribute does not exist, there is no column for the clip, or there is
            neither a text nor a class in the table.
    """
    for attribute in label_columns:
        if attribute not in lexicon.attributes:
            raise _missing(
                f"There is no attribute {show_name(attribute)}.", attribute, lexicon.attributes, "Attributes"
            )
    for column in [file_column, *text_columns, *label_columns.values()]:
        if column is not None and column not in table.columns:
            raise _missing(f"{table.path} has no column {show_name(column)}.", column, table.columns, "Its columns")
    file = file_column or table.first(FILES + _CLIPS)
    if file is None:
        raise ReferencesError(
            f"{table.path} has no column that names the clip.",
            hint=f"Name it with --file-column. Its columns: {', '.join(map(show_name, table.columns))}.",
        )
    start, end = table.first(("start_s",)), table.first(("end_s",))
    if start is None or end is None:  # one alone says nothing
        start = end = None
    found = Columns(
        file=file,
        texts=tuple(text_columns) or _text_columns(table.columns),
        labels=_label_columns(table, label_columns, lexicon),
        speaker=table.first(_SPEAKERS),
        start=start,
        end=end,
    )
    if not found.texts and not found.labels:
        raise ReferencesError(
            f"{table.path} has neither reference texts nor labels.",
            hint="Name their columns with --text-column and --label-column ATTRIBUTE=COLUMN. "
            f"Its columns: {', '.join(map(show_name, table.columns))}.",
        )
    return found


def _missing(message: str, name: str, known: Iterable[str], what: str) -> ReferencesError:
    names = list(known)
    close = nearest(name, names)
    hint = f"Did you mean {show_name(close)}? " if close else ""
    return ReferencesError(message, hint=f"{hint}{what}: {', '.join(map(show_name, names))}.")


def _text_columns(columns: Sequence[str]) -> tuple[str, ...]:
    for group in _TEXTS:
        if found := tuple(column for column in columns if _NUMBER.sub("", column.casefold()) in group):
            return found
    return ()


def _label_columns(table: Table, named: Mapping[str, str], lexicon: Lexicon) -> dict[str, str]:
    found = dict(named)
    for attribute in lexicon.attributes:
        marked = table.first((f"c_{attribute}", f"label_{attribute}", f"{attribute}_label"))
        bare = table.first((attribute,))
        if bare is not None and not _holds_classes(table, bare, attribute, lexicon):
            bare = None
        if column := marked or bare:
            found.setdefault(attribute, column)
    return found


def _holds_classes(table: Table, column: str, attribute: str, lexicon: Lexicon) -> bool:
    return any(lexicon.canonical(attribute, word) for row in table.rows for word in row.cells.get(column, ()))
