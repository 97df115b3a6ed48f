"""Which columns of a table of references hold what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.config.problems import show_name
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import FILES, Table
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.labels.lexicon_file import suggestion

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
        span: start and end in the recording of the piece that a row is about, s; None: rows are about recordings.
    """

    file: str
    texts: tuple[str, ...]
    labels: Mapping[str, str]
    speaker: str | None = None
    span: tuple[str, str] | None = None

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
        ReferencesError: a named column does not exist, there is no column for the clip, or there is neither a text nor
            a class in the table.
    """
    listed = f"Its columns: {', '.join(map(show_name, table.columns))}."
    for column in [file_column, *text_columns, *label_columns.values()]:
        if column is not None and column not in table.columns:
            raise ReferencesError(
                f"{table.path} has no column {show_name(column)}.", hint=suggestion(column, table.columns) + listed
            )
    file = file_column or table.first(FILES + _CLIPS)
    if file is None:
        message = f"{table.path} has no column that names the clip."
        raise ReferencesError(message, hint=f"Name it with --file-column. {listed}")
    labels = {**label_columns}
    for attribute in lexicon.attributes:
        if column := _label_column(table, attribute, lexicon):
            labels.setdefault(attribute, column)
    texts = tuple(text_columns) or _text_columns(table.columns)
    if not texts and not labels:
        raise ReferencesError(
            f"{table.path} has neither reference texts nor labels.",
            hint=f"Name their columns with --text-column and --label-column ATTRIBUTE=COLUMN. {listed}",
        )
    start, end = table.first(("start_s",)), table.first(("end_s",))
    return Columns(file, texts, labels, table.first(_SPEAKERS), (start, end) if start and end else None)


def _text_columns(columns: Sequence[str]) -> tuple[str, ...]:
    for group in _TEXTS:
        if found := tuple(column for column in columns if _NUMBER.sub("", column.casefold()) in group):
            return found
    return ()


def _label_column(table: Table, attribute: str, lexicon: Lexicon) -> str | None:
    """A column of classes; one that is merely called like the attribute may hold measurements instead."""
    if column := table.first((f"c_{attribute}", f"label_{attribute}", f"{attribute}_label")):
        return column
    if column := table.first((attribute,)):
        words = (word for row in table.rows for word in row.cells.get(column, ()))
        return column if any(lexicon.canonical(attribute, word) for word in words) else None
    return None
