"""Leave one corpus out for the captions of whole pairs.

`python -m training.pair_judge --data DIR cremad:1=FOLDER cremad:2=FOLDER ...`, with a folder of `edge` and `cloud` for
each left-out corpus and seed, as `training.train --leave-out CORPUS --seed SEED --output FOLDER` writes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.prompts import Language
from training.captioning import Captioner
from training.corpus import Waveform, read_audio
from training.evaluate import caption_rows
from training.labels import Row, read_rows
from training.leave_out import Judged, fold, judge, table


def judge_captions(
    captioner: Captioner,
    rows: Sequence[Row],
    left_out: str,
    seed: int,
    read: Callable[[str], Waveform],
) -> dict[Language, Judged]:
    """Figures of a side that was trained without `left_out`, by language; `rows` are those of all corpora."""
    own = fold(rows, left_out)
    unseen, held_back = (
        {
            language: judge(part, [each.classes for each in scored])
            for language, scored in caption_rows(captioner, part, read).items()
        }
        for part in (own.unseen, own.held_back)
    )
    return {language: Judged(left_out, seed, unseen[language], held_back[language]) for language in unseen}


def main(
    pairs: Annotated[list[str], typer.Argument(help="CORPUS:SEED=FOLDER of each pair.")],
    data: Annotated[Path, typer.Option(help="Folder with labels.tsv and the clips.")],
) -> None:
    """Print how the captions of pairs do on the corpora that each was trained without, and on dev speakers."""
    rows = read_rows(data)
    found = defaultdict[str, list[Judged]](list)
    for name, folder in (pair.split("=", 1) for pair in pairs):
        left_out, seed = name.split(":")
        for side in ("edge", "cloud"):
            captioner = Captioner.load(Path(folder) / side)
            judged = judge_captions(captioner, rows, left_out, int(seed), lambda key: read_audio(data / key))
            for language, each in judged.items():
                found[f"{side}, {language}"].append(each)
    print(table(found))


if __name__ == "__main__":
    typer.run(main)
