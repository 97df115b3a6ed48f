"""What captions are judged by: the options of `compare` and `tune` about references and words, and their reading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.lexicon import Lexicon
    from specdec_cli.metrics import References

PANEL: Final = "What captions are judged by"

Table = Annotated[
    Path | None,
    typer.Option(
        "--references",
        metavar="TABLE",
        help="Captions or classes by people, one row a recording (.tsv, .csv, .json, .jsonl).",
        rich_help_panel=PANEL,
    ),
]
FileColumn = Annotated[
    str | None, typer.Option("--file-column", metavar="COLUMN", help="Names the recording.", rich_help_panel=PANEL)
]
TextColumn = Annotated[
    list[str] | None,
    typer.Option("--text-column", metavar="COLUMN", help="Holds a caption. Repeatable.", rich_help_panel=PANEL),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="ATTRIBUTE=COLUMN",
        help="Holds the class of an attribute, e.g. emotion=mood. Repeatable.",
        rich_help_panel=PANEL,
    ),
]
Words = Annotated[
    Path | None,
    typer.Option(
        "--lexicon", metavar="FILE", help="Words for classes, in place of the shipped ones.", rich_help_panel=PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class Judging:
    """What captions are judged by, as given on the command line.

    Attributes:
        references: a table, or None.
        file_column, text_columns, labels: its columns; a label is "attribute=column".
        lexicon: file of words, None for the shipped one.
        bertscore: compute it.
        seed: of the bootstrap.
    """

    references: Path | None
    file_column: str | None
    text_columns: tuple[str, ...]
    labels: tuple[str, ...]
    lexicon: Path | None
    bertscore: bool
    seed: int

    def read(self) -> tuple[Lexicon, References | None]:
        """The lexicon, and the references if there are any.

        Raises:
            ConfigError: one of the two is malformed, or a column is named of no table.
        """
        from specdec_cli.lexicon import Lexicon

        lexicon = Lexicon.load(self.lexicon)
        if self.references is None:
            if self.file_column or self.text_columns or self.labels or self.bertscore:
                raise ConfigError(
                    "--file-column, --text-column, --label and --bertscore are about references, and there are none.",
                    hint="Name the table: --references FILE",
                )
            return lexicon, None
        from specdec_cli.metrics import References

        return lexicon, References.read(
            self.references,
            file_column=self.file_column,
            text_columns=self.text_columns,
            label_columns=dict(self._column(label, lexicon) for label in self.labels),
            lexicon=lexicon,
        )

    def _column(self, label: str, lexicon: Lexicon) -> tuple[str, str]:
        attribute, separator, column = label.partition("=")
        if not separator or not column or attribute not in lexicon.attributes:
            raise ConfigError(
                f"--label {label!r} is not of the form attribute=column.",
                hint=f"Attributes: {', '.join(lexicon.attributes)}. For example: --label emotion=mood",
            )
        return attribute, column
