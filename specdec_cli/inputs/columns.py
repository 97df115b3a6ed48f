"""Which columns of a table hold what: as named, or by what columns are usually called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.config.problems import nearest, show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.tables import Table
from specdec_cli.lexicon import Lexicon

FILES: Final = ("file", "path", "filename", "file_name", "filepath", "file_path", "audio", "audio_path", "audio_file")
"""Names that a column of paths may have, of references as of a manifest."""
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
        labels: attribute -> column with its class.
        speaker: who speaks, or None.
    """

    file: str
    texts: tuple[str, ...]
    labels: Mapping[str, str]
    speaker: str | None = None


def find_columns(
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
    found = Columns(
        file=file,
        texts=tuple(text_columns) or _text_columns(table.columns),
        labels=_label_columns(table, label_columns, lexicon),
        speaker=table.first(_SPEAKERS),
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
