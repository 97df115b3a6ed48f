"""What commands say of tables, cuts and transcripts: at once, and what to do."""

import json
from pathlib import Path

import pytest

from tests.mini_pair import write_voice


@pytest.fixture
def clip(tmp_path) -> Path:
    return write_voice(tmp_path / "a.wav", 0, 0.6)


def test_a_table_beside_recordings_costs_itself_and_sound_may_have_any_name(specdec, clip):
    Path("m.csv").write_text("file\na.wav\n")
    assert specdec("caption", clip, "m.csv", "-q", "--set", "decoding.max_new_tokens=2").code == 1
    assert specdec("caption", clip.rename("b.csv"), "-q", "--set", "decoding.max_new_tokens=2").code == 0


def test_reading_cuts_is_shown(specdec, clip):
    Path("cuts.srt").write_text("1\n00:00:00,000 --> 00:00:00,500\nhi\n")
    outcome = specdec("caption", clip, "--segment", "cuts.srt", "--set", "decoding.max_new_tokens=2")
    assert (outcome.code, "loading cuts: " in outcome.err) == (0, True), outcome.err


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_the_line_of_what_failed_names_its_place(specdec, clip, command):
    Path("bad.wav").write_bytes(b"RIFF" + bytes(60))
    Path("m.csv").write_text("file,id,start,end,channel,speaker\nbad.wav,x,0,1,2,ann\na.wav,y,0,0.5,,bob\n")
    assert specdec(command, "--manifest", "m.csv", "-o", "o.jsonl", "--set", "decoding.max_new_tokens=2").code == 1
    found = {line["id"]: line for line in map(json.loads, Path("o.jsonl").read_text("utf-8").splitlines())}
    bad = found["x"]
    assert [bad[name] for name in ("start_s", "end_s", "channel", "speaker")] == [0, 1, 2, "ann"]
    assert bad["error"]
    Path("m.csv").write_text("file,id,channel\nbad.wav,x,1\nbad.wav,y,2\n")
    assert specdec(command, "--manifest", "m.csv", "-o", "p.jsonl").code == 1
    assert not Path("p.jsonl").exists()  # nothing could be opened


def test_a_cut_without_an_end_is_not_said_to_be_shortened(specdec, clip):
    Path("cuts.csv").write_text("start,end\n0,0.2\n0.2,\n")
    outcome = specdec("caption", clip, "--segment", "cuts.csv", "--set", "decoding.max_new_tokens=2", "-q")
    assert (outcome.code, "it has no end" in outcome.err) == (0, True), outcome.err
    assert "shortened" not in outcome.err
    Path("late.csv").write_text("start,end\n0,0.2\n5,\n")
    outcome = specdec("caption", clip, "--segment", "late.csv", "--set", "decoding.max_new_tokens=2", "-q")
    assert "line 3: 5 s to the end" in outcome.err
