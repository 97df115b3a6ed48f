"""The sweep: comparisons become tables, and the model card quotes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from specdec_cli.compare.build import comparison
from specdec_cli.inputs.references import References
from specdec_cli.lexicon import Lexicon
from specdec_cli.types import Mode
from tests.compare.fabricate import made
from training.card import _engine
from training.sweep import main, read_sweep

MODES: tuple[Mode, ...] = ("edge", "cloud", "lossless", "hybrid")
CLIPS = 40


def wrong(mode: Mode, clip: int) -> bool:
    """The cloud is always right, the edge in half of the clips, and hybrid in three quarters."""
    return clip % 2 == 0 if mode == "edge" else clip % 4 == 0 if mode == "hybrid" else False


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The output of `specdec compare --json` for two thresholds; emotion is known of every other clip only."""
    folder, lexicon = tmp_path_factory.mktemp("compared"), Lexicon.load()
    table = folder / "references.tsv"
    lines = [f"{clip}.wav\t{'sad' if clip % 8 < 4 else ''}" for clip in range(CLIPS)]
    table.write_text("\n".join(["file\temotion", *lines]) + "\n", encoding="utf-8")
    found = []
    for threshold in (0.7, 1.2):
        runs = [
            made(
                f"/data/{clip}.wav",
                mode,
                "The emotion sounds happy." if wrong(mode, clip) else "The emotion sounds sad.",
                ms=200.0,
                escalations=int(mode in ("hybrid", "lossless")),
                drafted=5,
                accepted=4,
                settings={"threshold": threshold, "k": 2, "stop_drafting": threshold > 1},
            )
            for clip in range(CLIPS)
            for mode in MODES
        ]
        compared = comparison(runs, lexicon, references=References.read(table, lexicon=lexicon))
        found.append(folder / f"{threshold}.json")
        found[-1].write_text(compared.model_dump_json(), encoding="utf-8")
    return found


def test_each_setting_is_a_row_after_the_baselines(files: list[Path]) -> None:
    found = read_sweep(reversed(files))
    rows = found[f"{CLIPS} clips, en"]
    baselines = ["edge", "cloud", "lossless, k 2"]
    assert list(rows) == [*baselines, "entropy 1.2, k 2, stopping", "entropy 0.7, k 2"]
    hybrid = rows["entropy 0.7, k 2"]
    assert (hybrid["blocks"], hybrid["clips woken"], hybrid["accepted"]) == ("25.0", "100.0", "80.0")
    assert hybrid["ms a clip"] == "200.0"
    assert hybrid["emotion gap over random"].startswith("+25 / -50* / ")
    assert hybrid["emotion gap"].startswith("0.50 (")
    assert (rows["edge"]["blocks"], rows["edge"]["emotion"]) == ("-", "50.0")
    assert (rows["cloud"]["emotion"], hybrid["emotion"]) == ("100.0", "75.0")


def test_the_command_writes_what_the_model_card_quotes(files: list[Path], tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, [*map(str, files), "--output", str(tmp_path / "sweep.json")])
    assert done.exit_code == 0, done.output
    assert "entropy 0.7, k 2" in done.output
    card = _engine(json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8")))
    (line,) = (line for line in card.splitlines() if line.startswith("| entropy 0.7"))
    assert "| 25.0 | 100.0 | - | 80.0 |" in line
