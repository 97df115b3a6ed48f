"""Which columns of a table of references hold what, and whether the lexicon knows the words in them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.config.problems import nearest, show, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import FILES, Row, Table
from specdec_cli.labels.lexicon import Lexicon

_LISTED: Final = 8
_CLIPS: Final = ("wav", "wav_path", "clip", "key", "id", "utt", "utt_id", "utterance", "utterance_id", "name")
_SPEAKERS: Final = ("speaker", "speaker_id", "spk", "spk_id")
_TEXTS: Final = (
    ("caption", "captions", "reference", "references", "ref", "description", "descriptions"),
    ("text", "texts"),
)
"""The second group only where a table has none of the first: `text` may be what was spoken."""
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


def find_columns(
    table: Table,
    file_column: str | None,
    text_columns: Sequence[str],
    label_columns: Mapping[str, str],
    lexicon: Lexicon,
) -> Columns:
    """The columns as named, and for what is not named those that are called accordingly.

    Raises:
        ReferencesError: a named column or attribute does not exist, there is no column for the clip, there is neither a
            text nor a class in the table, or the lexicon does not know a word for a class.
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
            hint=f"Name it with --file-column. Its columns: {_listed(table.columns)}.",
        )
    start, end = table.first(("start_s",)), table.first(("end_s",))
    if start is None or end is None:  # one alone says nothing
        start = end = None
    labels = _label_columns(table, label_columns, lexicon)
    texts = tuple(text_columns) or _text_columns(table.columns)
    if not texts and not labels:
        raise ReferencesError(
            f"{table.path} has neither reference texts nor labels.",
            hint="Name their columns with --text-column and --label-column ATTRIBUTE=COLUMN. "
            f"Its columns: {_listed(table.columns)}.",
        )
    _require_known_words(table, labels, lexicon)
    return Columns(file, texts, labels, table.first(_SPEAKERS), start, end)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(show_name, names))


def _missing(message: str, name: str, known: Iterable[str], what: str) -> ReferencesError:
    return ReferencesError(message, hint=f"{_meant(nearest(name, known))}{what}: {_listed(known)}.")


def _meant(close: str | None) -> str:
    return f"Did you mean {show_name(close)}? " if close else ""


def _text_columns(columns: Sequence[str]) -> tuple[str, ...]:
    for group in _TEXTS:
        if found := tuple(column for column in columns if _NUMBER.sub("", column.casefold()) in group):
            return found
    return ()


def _label_columns(table: Table, named: Mapping[str, str], lexicon: Lexicon) -> dict[str, str]:
    found = dict(named)
    for attribute in lexicon.attributes:
        column = table.first((f"c_{attribute}", f"label_{attribute}", f"{attribute}_label"))
        bare = table.first((attribute,))
        if column is None and bare is not None and _holds_classes(table, bare, attribute, lexicon):
            column = bare
        if column is not None:
            found.setdefault(attribute, column)
    return found


def _holds_classes(table: Table, column: str, attribute: str, lexicon: Lexicon) -> bool:
    return any(lexicon.canonical(attribute, word) for row in table.rows for word in row.cells.get(column, ()))


def _require_known_words(table: Table, labels: Mapping[str, str], lexicon: Lexicon) -> None:
    """Refuses words for classes that the lexicon does not know, all of them at once."""
    unknown: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        for attribute, column in labels.items():
            word = row.single(column)
            if word and not lexicon.canonical(attribute, word) and not lexicon.ignores(attribute, word):
                unknown[attribute, word].append(row)
    if not unknown:
        return
    commonest = sorted(unknown, key=lambda pair: -len(unknown[pair]))
    attribute, word = commonest[0]
    listed = [f"{show(word)} ({attribute}, {len(unknown[attribute, word])} times)" for attribute, word in commonest]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    place = f"{unknown[attribute, word][0].place}, column {show_name(labels[attribute])}"
    raise ReferencesError(
        f"{place}: {attribute} has no class or word {show(word)}.",
        hint=f"{_meant(nearest(word, lexicon.attributes[attribute]))}Words that are not known: "
        f"{', '.join(listed[:_LISTED])}{more}. Add them to a lexicon file that extends the default one, under aliases "
        "or, to leave such rows out, under ignored; or name another column.",
    )
