"""`--labels` and `--measure`: classes and figures in transcripts, tables and the log, and nowhere else."""

import csv
import json
from pathlib import Path

import jsonschema
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.transcript import json_schema
from tests.cli.conftest import Specdec
from tests.transcript.lines import read_transcripts

FIGURES = {"f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"}


def test_figures_and_what_agrees_stand_in_the_transcript(specdec: Specdec, recordings: list[str]) -> None:
    outcome = specdec("caption", "--json", "--measure", "--labels", "-l", "en", recordings[0])
    line = json.loads(outcome.out)
    jsonschema.Draft202012Validator(json_schema()).validate(line)
    assert line["labels"] == Lexicon.load().labels(line["caption"], "en")
    assert line["measured"].keys() == FIGURES
    assert 80 < line["measured"]["f0_median_hz"] < 420
    assert line["measured"]["level_relative_db"] is None
    assert line["agrees"].keys() == {"rate", "pitch", "range", "volume", "pauses"}
    assert {line["labels"][name] is None for name, fits in line["agrees"].items() if fits is None} <= {True}
    alone = json.loads(specdec("caption", "--json", "--measure", recordings[0]).out)
    assert alone["measured"] == line["measured"]
    assert alone["agrees"] == line["agrees"]
    plain = json.loads(specdec("caption", "--json", recordings[0]).out)
    assert (plain["measured"], plain["agrees"]) == (alone["measured"], alone["agrees"])
    off = json.loads(specdec("caption", "--json", "--labels", "--set", "gate.grounded=false", recordings[0]).out)
    assert not {"measured", "agrees"} & off.keys()


@pytest.mark.ci
def test_a_batch_writes_columns_and_refuses_to_mix(specdec: Specdec, recordings: list[str], tmp_path: Path) -> None:
    output, table = tmp_path / "out.jsonl", tmp_path / "out-export" / "out.csv"
    command = ("batch", *recordings, "-o", output, "--export", "csv", "--labels")
    assert specdec(*command, "--measure").code == 0
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == recordings  # in the order of the input
    by_file = {line.file: line for line in read_transcripts(output)}
    for row in rows:
        line = by_file[row["file"]]
        assert {name: row[f"label_{name}"] or None for name in line.labels or {}} == line.labels
        assert line.measured is not None
        assert float(row["measured_f0_median_hz"]) == line.measured.f0_median_hz
        assert row["measured_level_relative_db"] == ""
        assert line.agrees is not None
        assert {row[f"agrees_{name}"] for name in line.agrees} <= {"true", "false", ""}
    assert specdec(*command).code == 0  # figures are there anyway
    mixed = specdec(*command, "--set", "gate.grounded=false")
    assert mixed.code == 2
    assert "measured was true and is false" in mixed.err
    assert specdec(*command, "--measure").code == 0
