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
    off = json.loads(specdec("caption", "--json", "--set", "decoding.sound=[]", recordings[0]).out)
    assert off["measured"] == line["measured"]


@pytest.mark.slow
def test_captions_of_another_sound_are_not_mixed(specdec, recordings):
    command = ("batch", *recordings, "-o", "out.jsonl")
    assert specdec(*command).code == 0
    mixed = specdec(*command, "--set", "decoding.sound=[pitch]")
    assert mixed.code == 2
    assert "sound was [rate, pitch, range, volume, pauses] and is [pitch]" in mixed.err
    unknown = specdec(*command, "--set", "decoding.sound=[mood]")
    assert unknown.code == 2
    assert "for which the lexicon has no limits" in unknown.err
