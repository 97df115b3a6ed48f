"""What `compare` and `tune` judge captions by: references and words, read before any model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.lexicon import Lexicon
    from specdec_cli.metrics import References


def read_references(
    table: Path | None,
    file_column: str | None,
    text_columns: Sequence[str] | None,
    label_columns: Sequence[str] | None,
    words: Path | None,
    *,
    needed: Sequence[str] = (),
) -> tuple[Lexicon, References | None]:
    """The lexicon, and the references if there are any.

    Args:
        table: --references.
        file_column, text_columns, label_columns: its columns; a label's is "attribute=column".
        words: --lexicon; None for the shipped one.
        needed: other options that need references.

    Raises:
        ConfigError: one of the two is malformed, or a column is named of no table.
    """
    from specdec_cli.lexicon import Lexicon

    lexicon = Lexicon.load(words)
    if table is None:
        named = {"--file-column": file_column, "--text-column": text_columns, "--label-column": label_columns}
        if given := [flag for flag, value in named.items() if value] + list(needed):
            raise ConfigError(
                f"{', '.join(given)}: there are no references for it.", hint="Name the table: --references FILE"
            )
        return lexicon, None
    from specdec_cli.metrics import References

    return lexicon, References.read(
        table,
        file_column=file_column,
        text_columns=tuple(text_columns or ()),
        label_columns=dict(_column(label, lexicon) for label in label_columns or ()),
        lexicon=lexicon,
    )


def _column(label: str, lexicon: Lexicon) -> tuple[str, str]:
    attribute, separator, column = label.partition("=")
    if not separator or not column or attribute not in lexicon.attributes:
        raise ConfigError(
            f"--label-column {label!r} is not of the form attribute=column.",
            hint=f"Attributes: {', '.join(lexicon.attributes)}. For example: --label-column emotion=mood",
        )
    return attribute, column
