"""`--labels` and `--measure`: classes and figures in transcripts, tables and the log, and nowhere else."""

import json

import jsonschema
import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.transcript import json_schema

FIGURES = {"f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"}


def test_figures_and_what_agrees_stand_in_the_transcript(specdec, recordings):
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
def test_figures_are_not_mixed_with_lines_that_lack_them(specdec, recordings):
    command = ("batch", *recordings, "-o", "out.jsonl", "--labels")
    assert specdec(*command, "--measure").code == 0
    assert specdec(*command).code == 0  # figures are there anyway
    mixed = specdec(*command, "--set", "gate.grounded=false")
    assert (mixed.code, "measured was true and is false" in mixed.err) == (2, True)
