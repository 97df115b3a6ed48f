"""`specdec unpack`: what it prints, and what the next commands make of it."""

from pathlib import Path

import pytest

from tests.unpack.data_sets import FEATURES, clip, parquet


@pytest.fixture
def emotions(tmp_path) -> Path:
    rows = [clip(1, emotion=0), clip(2, emotion=3), {"audio": {"bytes": None, "path": "gone.wav"}}]
    return parquet(tmp_path / "emotions" / "data" / "train-00000-of-00001.parquet", rows, FEATURES)


def test_a_data_set_is_unpacked_and_the_next_command_reads_it(emotions, specdec):
    done = specdec("unpack", "emotions:train", "-o", "out", ends=0)
    assert "2 recordings in out, listed in out/table.jsonl" in done.err
    assert "row 3 (its recording 'gone.wav' is not in the data set)" in done.err
    assert "(2 done before)" in specdec("unpack", "emotions:train", "-o", "out").err
    assert specdec("batch", "--manifest", "out/table.jsonl", "-o", "c.jsonl", "--mode", "edge").code == 0
    assert len(Path("c.jsonl").read_text().splitlines()) == 2


def test_the_column_of_the_recordings_is_chosen(tmp_path, specdec):
    source = parquet(tmp_path / "set.parquet", [{"near": clip(1)["audio"], "far": clip(2)["audio"]}])
    assert specdec("unpack", source, "-o", tmp_path / "out", "--column", "audio=far").code == 0
    assert (tmp_path / "out" / "clip2.wav").is_file()
    wrong = specdec("unpack", source, "-o", tmp_path / "new", "--column", "file=far", ends=2)
    assert "'file=far' is not of the form audio=COLUMN" in wrong.err


def test_a_damaged_file_is_a_failure_and_nothing_at_all_an_error(emotions, specdec):
    emotions.with_name("train-00001-of-00002.parquet").write_bytes(b"PAR1")
    assert specdec("unpack", "emotions", "-o", "out").code == 1
    parquet(Path("none.parquet"), [{"audio": {"bytes": None, "path": "gone.wav"}}] * 2)
    none = specdec("unpack", "none.parquet", "-o", "new", ends=2)
    assert "'gone.wav' is not in the data set" in none.err
