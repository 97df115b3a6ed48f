"""What inputs may not do: be waited for, unpack to gigabytes, or name times without end."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs import table_files as tables
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.table_files import read_table

LONG = "9" * 400
LHOTSE = {"type": "MonoCut", "start": 0, "recording": {"sources": [{"type": "file", "source": "a"}]}}
TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"
0 3 <exists> 1 "IntervalTier" "a" 0 3 1 0 {end} "said"
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.srt", f"1\n{LONG}:00:01,000 --> {LONG}:00:02,000\nhi\n"),
        ("a.vtt", f"WEBVTT\n\n00:01.000 --> {LONG}:00:02.000\nhi\n"),
        ("a.rttm", f"SPEAKER a 1 1.0 {LONG} <NA> <NA> s <NA> <NA>\n"),
        ("a.rttm", "SPEAKER a 1 1.0 inf <NA> <NA> s <NA> <NA>\n"),
        ("a.TextGrid", TEXTGRID.format(end="1e308")),
        ("a.TextGrid", TEXTGRID.format(end="1e400")),
        ("a.TextGrid", TEXTGRID.replace(" 1 0 ", " 1e400 0 ").format(end="1")),
        ("a.json", '{"segments": [{"start": 1, "end": 1e308}]}'),
        ("a.json", '{"segments": [{"start": [1], "end": {}}]}'),
        ("a.csv", f"start,end\n0,{LONG}\n"),
        ("a.jsonl", '{"audio_filepath": "a.wav", "offset": 0, "duration": 1e308}'),
        ("a.jsonl", '{"audio_filepath": "a.wav", "offset": -1, "duration": 1}'),
        ("a.jsonl", json.dumps({**LHOTSE, "duration": 1e308})),
        ("a.jsonl", '{"type": 3, "recording": 3}'),
    ],
)
def test_a_time_that_no_recording_has_is_refused_with_its_line(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ReferencesError, match=r"line|segment"):
        (Manifest if name.endswith(".jsonl") else Cuts).read(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz", "wav.scp", "a.parquet", "a.arrow"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ReferencesError, match="no regular file"):
        Manifest.read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_read_is_bounded_once_unpacked(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_BYTES", 1 << 20)
    content = b" " * (2 << 20)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(ReferencesError, match="more than 1 MiB"):
        Manifest.read(tmp_path / name)


def test_runs_of_brackets_and_wide_tables_are_parsed_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text("00:01.000 --> 00:02.000\n" + "<" * 400_000 + "<v " * 100_000 + "\n")
    (tmp_path / "wide.csv").write_text(",".join(f"c{index}" for index in range(100_000)) + "\n")
    Cuts.read(tmp_path / "a.srt")
    with pytest.raises(ReferencesError, match="has no rows"):
        read_table(tmp_path / "wide.csv")
