"""A comparison to report on: what the shipped pair says of generated voices, judged by the cloud's own classes."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from specdec_cli.evaluate import comparison as evaluate
from specdec_cli.evaluate.page import render
from specdec_cli.evaluate.result import Comparison
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.transcript import Transcript
from specdec_cli.types import Mode
from tests.mini_pair import captioner, write_voice

MODES: tuple[Mode, ...] = ("edge", "hybrid", "lossless", "cloud")
TEXT = "A calm man speaks slowly."
Runs = dict[Mode, list[Transcript]]


def runs_over(files: Sequence[Path], language: Literal["zh", "en"] = "en") -> Runs:
    """Each mode's transcripts of `files`; the hybrid asks at times, and lossless takes several rounds."""
    settings: dict[Mode, dict[str, object]] = {"hybrid": {"gate__threshold": 0.4}, "lossless": {"decoding__k": 2}}
    runs: Runs = {}
    for mode in MODES:
        use = captioner(decoding__mode=mode, prompt__language=language, **settings.get(mode, {}))
        runs[mode] = [use.caption(file) for file in files]
    return runs


def voices(folder: Path, count: int) -> list[Path]:
    """Generated voices as files."""
    return [write_voice(folder / f"voice {seed}.wav", seed, 1.2 + 0.3 * seed) for seed in range(count)]


def comparison(runs: Runs, **changes: object) -> Comparison:
    """The comparison of `runs`; the references name the classes that the cloud names."""
    lexicon = Lexicon.read()
    rows = [
        {"file": run.file, "text": TEXT}
        | {f"label_{name}": named for name, named in lexicon.labels(run.caption or "", run.language).items() if named}
        for run in runs["cloud"]
    ]
    with TemporaryDirectory() as folder:
        table = Path(folder, "references.jsonl")
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        references = References.read(table, lexicon=lexicon)
    return evaluate.comparison([*chain(*runs.values())], lexicon, references=references).model_copy(update=changes)


def page_of(found: Comparison, runs: Runs) -> str:
    """The page about a comparison of `runs`."""
    return render(found, chain(*runs.values()), Lexicon.shipped())
