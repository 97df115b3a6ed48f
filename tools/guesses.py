"""What guesses save: `python -m tools.guesses DIR`, where DIR has labelled clips as those of training.

Every clip is captioned with guesses and without, in turns, in one process on one thread; figures are of CPU time,
reading the file left out. `empty`: the memory is empty before each clip, as for a text without repetition; `batch`: it
holds the captions of the clips before; `again`: the same clips once more.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Final, get_args

import torch
import typer

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.decoding.guesses import GuessTable
from specdec_cli.decoding.pair import Pair
from specdec_cli.text import chosen
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Mode
from training.labels import dev_rows, read_rows

_MODES: Final = ",".join(get_args(Mode))
KINDS: Final = ("empty", "batch", "again")


def _timed(captioner: Captioner, clip: Path) -> tuple[float, Transcript]:
    (run,) = captioner.runs(clip)
    started = time.process_time()
    transcript = run.finish()
    return time.process_time() - started, transcript


def _captioner(pair: Pair, mode: str, language: str, guesses: int | None) -> Captioner:
    """On the loaded models, with a memory of its own."""
    flags = {"decoding.mode": mode, "prompt.language": language, "runtime.threads": 1}
    flags |= {} if guesses is None else {"decoding.guess_tokens": guesses}
    edge, cloud = pair.edge if mode != "cloud" else None, pair.cloud if mode != "edge" else None
    return Captioner(load_config("mini", flags=flags).config, Pair(edge, cloud, pair.vocab_size))


def measure(pair: Pair, mode: Mode, language: str, clips: list[Path]) -> None:
    """Prints a row of the table for each kind of memory."""
    off, on = _captioner(pair, mode, language, 0), _captioner(pair, mode, language, None)
    empty = _captioner(pair, mode, language, None)
    for kind in KINDS:
        ours = empty if kind == "empty" else on
        times, kept, tokens, differ = list[tuple[float, float]](), 0, 0, 0
        for index, clip in enumerate(clips):
            if kind == "empty":
                ours.pair = replace(ours.pair, guess_table=GuessTable())
            turns = (off, ours) if index % 2 else (ours, off)
            done = {captioner: _timed(captioner, clip) for captioner in turns}
            (plain_s, plain), (s, guessed) = done[off], done[ours]
            times.append((plain_s, s))
            kept += guessed.totals.guesses_kept or 0 if guessed.totals else 0
            tokens += sum(len(round_.committed_ids) for round_ in guessed.rounds)
            differ += plain.caption != guessed.caption
        before, after = map(sum, zip(*times, strict=True))
        ratio, paired = before / after, median(plain / with_ for plain, with_ in times)
        cells = (mode, language, kind, f"{1e3 * before / len(clips):.0f}", f"{1e3 * after / len(clips):.0f}")
        print("|", " | ".join(cells), f"| {ratio:.2f} | {paired:.2f} | {kept / tokens:.0%} | {differ} |", flush=True)


def main(
    data: Annotated[Path, typer.Argument(help="Folder with labels.tsv and the clips.")],
    count: Annotated[int, typer.Option("--clips", min=1, help="Clips of dev speakers to caption.")] = 40,
    modes: Annotated[str, typer.Option(help="Modes to measure, comma-separated.")] = _MODES,
) -> None:
    """Print what guesses save, a row for each mode, language and memory."""
    torch.set_num_threads(1)
    rows = dev_rows(read_rows(data))
    clips = [data / row.file for row in rows[:: max(len(rows) // count, 1)][:count]]
    pair = Captioner.load("mini", {"decoding.mode": "hybrid", "runtime.threads": 1}).pair
    print("| mode | language | memory | off, ms | on, ms | off / on | median | kept of tokens | other texts |")
    print("|---|---|---|---|---|---|---|---|---|")
    for mode in chosen(modes, get_args(Mode), "--modes", "mode"):
        for language in ("zh", "en"):
            measure(pair, mode, language, clips)


if __name__ == "__main__":
    typer.run(main)
