"""Reference tables for `specdec compare` and `specdec tune` out of the data folder's labels.

`python -m training.references --data DIR --split dev --output references.tsv`
"""

from __future__ import annotations

import csv
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from training.labels import ATTRIBUTES, balanced, dev_rows, read_rows, report_rows


class Split(StrEnum):
    """Whose clips."""

    DEV = "dev"
    REPORT = "report"


COLUMNS: Final = ("file", "speaker", "corpus", *ATTRIBUTES)


def main(
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
    output: Annotated[Path, typer.Option(help="The table to write, tab-separated.")],
    split: Annotated[Split, typer.Option(help="Whose clips.")] = Split.DEV,
    clips: Annotated[int, typer.Option(help="So many, the corpora in equal parts; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the choice of clips.")] = 0,
    without: Annotated[Path | None, typer.Option(help="A table whose clips are left out.")] = None,
    meant: Annotated[bool, typer.Option("--meant", help="CREMA-D: what the actor meant, on all clips.")] = False,
) -> None:
    """Write the classes that captions of a split's clips should name, for `--references`.

    The emotion of a CREMA-D clip counts only where listeners heard what the actor meant: a caption says how a voice
    sounds, and on the other clips the two differ. With `--meant` it counts everywhere.
    """
    rows = (dev_rows if split is Split.DEV else report_rows)(read_rows(data))
    if without is not None:
        known = {line.split("\t")[0] for line in without.read_text(encoding="utf-8").splitlines()}
        rows = [row for row in rows if str((data / row.file).resolve()) not in known]
    with output.open("w", encoding="utf-8", newline="") as stream:
        table = csv.DictWriter(stream, COLUMNS, restval="", delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None)
        table.writeheader()
        for row in balanced(rows, clips, seed) if clips else rows:
            classes = {name: label for name, label in row.classes.items() if name != "emotion" or row.agreed or meant}
            place = {"file": str((data / row.file).resolve()), "speaker": row.speaker, "corpus": row.corpus}
            table.writerow(place | classes)


if __name__ == "__main__":
    typer.run(main)
