"""Classes and figures: in every transcript and table."""

import csv
import json
from pathlib import Path

import jsonschema
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.transcript import json_schema

FIGURES = {"f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"}


def test_figures_and_what_agrees_stand_in_the_transcript(specdec, recordings):
    outcome = specdec("caption", "--json", "-l", "en", recordings[0])
    line = json.loads(outcome.out)
    jsonschema.Draft202012Validator(json_schema()).validate(line)
    assert line["labels"] == Lexicon.read().labels(line["caption"], "en")
    assert line["measured"].keys() == FIGURES
    assert 80 < line["measured"]["f0_median_hz"] < 420
    assert line["measured"]["level_relative_db"] is None
    assert line["agrees"].keys() == {"rate", "pitch", "range", "volume", "pauses"}
    assert {line["labels"][name] is None for name, fits in line["agrees"].items() if fits is None} <= {True}
    off = json.loads(specdec("caption", "--json", "--set", "decoding.sound=[]", recordings[0]).out)
    assert off["measured"] == line["measured"]


@pytest.mark.slow
def test_captions_of_another_sound_are_not_mixed(specdec, recordings):
    command = ("batch", *recordings, "-o", "out.jsonl")
    assert specdec(*command).code == 0
    mixed = specdec(*command, "--set", "decoding.sound=[pitch]")
    assert mixed.code == 2
    assert "sound was ['rate', 'pitch', 'range', 'volume', 'pauses'] and is ['pitch']" in mixed.err
    unknown = specdec(*command, "--set", "decoding.sound=[mood]")
    assert unknown.code == 2
    assert "for which the lexicon has no limits" in unknown.err


def test_lines_that_an_earlier_version_made_without_classes_and_figures_are_resumed(specdec, recordings):
    assert specdec("batch", *recordings[:2], "-o", "out.jsonl", "-q").code == 0
    lines = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    for name in ("labels", "emotions", "scores", "needs_review", "measured", "agrees"):
        lines[0].pop(name, None)
    Path("out.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), "utf-8")
    outcome = specdec("batch", *recordings, "-o", "out.jsonl", "-q", "--labels", "--export", "csv")
    assert outcome.code == 0, outcome.err
    with Path("out-export/out.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["label_rate"]) for row in rows] == [True] * len(recordings)
    assert [bool(row["measured_level_dbfs"]) for row in rows] == [False, *[True] * (len(recordings) - 1)]
