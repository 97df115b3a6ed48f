"""Leave one corpus out for the captions of whole pairs.

`python -m training.pair_judge --data DIR cremad:1=FOLDER cremad:2=FOLDER ...`, with a folder of `edge` and `cloud` for
each left-out corpus and seed, as `training.train --leave-out CORPUS --seed SEED --output FOLDER` writes it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from training.captions import WORDS
from training.evaluate import caption_rows
from training.labels import read_rows
from training.leave_out import Judged, fold, judge, table


def main(
    pairs: Annotated[list[str], typer.Argument(help="CORPUS:SEED=FOLDER of each pair.")],
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
) -> None:
    """Print how the captions of pairs do on the corpora that each was trained without, and on dev speakers."""
    rows = read_rows(data)
    found = defaultdict[str, list[Judged]](list)
    for name, folder in (pair.split("=", 1) for pair in pairs):
        left_out, seed = name.split(":")
        own = fold(rows, left_out)
        for side in ("edge", "cloud"):
            for language in WORDS:
                unseen, held_back = (
                    judge(part, [each.classes for each in caption_rows(Path(folder) / side, part, data, language)])
                    for part in (own.unseen, own.held_back)
                )
                found[f"{side}, {language}"].append(Judged(left_out, int(seed), unseen, held_back))
    print(table(found))


if __name__ == "__main__":
    typer.run(main)
