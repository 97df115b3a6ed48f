"""Reference tables for `specdec compare` and `specdec tune` out of the data folder's labels.

`python -m training.references --data DIR --split dev --output references.tsv`
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from training.labels import ATTRIBUTES, Row, balanced, dev_rows, read_rows, report_rows


class Split(StrEnum):
    """Clips of the `dev` or `report` speakers, or of a corpus that is never trained on."""

    DEV = "dev"
    REPORT = "report"
    SECAP = "secap"
    CASIA = "casia"


COLUMNS: Final = ("file", "speaker", "corpus", "text", *ATTRIBUTES)


def rows_of(rows: list[Row], split: Split) -> list[Row]:
    """The rows of one split."""
    if split is Split.DEV:
        return dev_rows(rows)
    if split is Split.REPORT:
        return report_rows(rows)
    return [row for row in rows if row.corpus == split.value]


def classes_of(row: Row, *, meant: bool = False) -> dict[str, str]:
    """The classes that a caption of the clip should name, as far as they are known.

    The emotion of a CREMA-D clip counts only where listeners heard what the actor meant: a caption says how a voice
    sounds, and on the other clips the two differ. With `meant` it counts everywhere.
    """
    return {name: label for name, label in row.classes.items() if name != "emotion" or row.agreed or meant}


def record(row: Row, data: Path, *, meant: bool = False) -> dict[str, str]:
    """One line of the table; a class that is not known is empty. `meant` as in `classes_of`.

    `text` is what a person wrote of how the clip sounds, where one did.
    """
    classes = classes_of(row, meant=meant)
    return {
        "file": str((data / row.file).resolve()),
        "speaker": row.speaker,
        "corpus": row.corpus,
        "text": row.caption,
        **{name: classes.get(name, "") for name in ATTRIBUTES},
    }


def write_references(path: Path, rows: Iterable[Row], data: Path, *, meant: bool = False) -> None:
    """Writes the table, tab-separated with a head line; `meant` as in `classes_of`."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, COLUMNS, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, escapechar=None)
        table.writeheader()
        for row in rows:
            table.writerow(record(row, data, meant=meant))


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    output: Annotated[Path, typer.Option(help="The table to write.")],
    split: Annotated[Split, typer.Option(help="Whose clips.")] = Split.DEV,
    clips: Annotated[int, typer.Option(help="Dev or report clips, the corpora in equal parts; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the choice of clips.")] = 0,
    without: Annotated[Path | None, typer.Option(help="A table whose clips are left out.")] = None,
    meant: Annotated[bool, typer.Option("--meant", help="CREMA-D: what the actor meant, on all clips.")] = False,
) -> None:
    """Write the references of a split, for `--references`."""
    rows = read_rows(data)
    if clips and split not in (Split.DEV, Split.REPORT):
        raise typer.BadParameter("--clips chooses among dev or report clips; leave it out for another --split")
    chosen = rows_of(rows, split)
    if without is not None:
        known = {line.split("\t")[0] for line in without.read_text(encoding="utf-8").splitlines()}
        chosen = [row for row in chosen if str((data / row.file).resolve()) not in known]
    if clips:
        chosen = balanced(chosen, clips, seed)
    write_references(output, chosen, data, meant=meant)


if __name__ == "__main__":
    typer.run(main)
