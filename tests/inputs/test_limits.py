"""Files that would take too much memory or time, or never end."""

import gzip
import os
import sys
import tracemalloc

import pytest

from specdec_cli.errors import ConfigError, ReferencesError
from specdec_cli.inputs import table_files, text_files
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest
from specdec_cli.inputs.table_files import read_table


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ReferencesError, match="not a regular file"):
        read_manifest(tmp_path / name)


def test_a_torn_archive_is_refused(tmp_path):
    (tmp_path / "m.jsonl.gz").write_bytes(gzip.compress(b'{"file": "a.wav"}\n')[:-8])
    with pytest.raises(ConfigError, match=r"m\.jsonl\.gz cannot be read"):
        read_manifest(tmp_path / "m.jsonl.gz")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_read_is_bounded_once_unpacked(tmp_path, name, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_BYTES", 1 << 20)
    content = b" " * (2 << 20)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(ReferencesError, match="more than 1 MiB"):
        read_manifest(tmp_path / name)


def test_deep_json_is_refused(tmp_path):
    for name, text in (("a.json", "[" * 100_000), ("b.json", f'"\\udcff{"[" * 100_000}'), ("c.json", "[\xff" * 99)):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
        with pytest.raises(ReferencesError, match="not valid JSON"):
            read_manifest(tmp_path / name)


@pytest.mark.slow
def test_rows_are_bounded_and_empty_lines_take_no_room(tmp_path, monkeypatch):
    """An archive of some kB holds millions of either."""
    monkeypatch.setattr(table_files, "MOST_ROWS", 1000)
    monkeypatch.setattr(text_files, "MOST_BYTES", 4 << 20)  # a buffer of this size is taken at once
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"file\n" + b"a\n" * 2000))
    with pytest.raises(ReferencesError, match="more than 1,000 rows"):
        read_table(tmp_path / "rows.csv.gz")
    (tmp_path / "blank.csv.gz").write_bytes(gzip.compress(b"\n" * (1 << 20) + b"file\na.wav\n"))
    tracemalloc.start()
    try:
        (row,) = read_table(tmp_path / "blank.csv.gz").rows
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert row.place.endswith(f"line {(1 << 20) + 2}")
    assert most < 60 << 20


@pytest.mark.parametrize(
    ("name", "text", "most"),
    [
        ("c.rttm", "".join(f"SPEAKER talk 1 {n}.5 0.8 <NA> <NA> ann <NA> <NA>\n" for n in range(1000)), 45),
        ("c.csv", "file,start,end,text\n" + "".join(f"a.wav,{n},{n}.5,x\n" for n in range(1000)), 90),
        ("c.srt", "".join(f"{n}\n00:00:{n % 60:02},000 --> 00:01:01,000\nx\n\n" for n in range(1000)), 190),
        ("c.json", f'{{"segments": [{", ".join(f"""{{"start": {n}, "end": {n}.5, "text": "x"}}""" for n in range(1000))}]}}', 130),  # noqa: E501
        ("brackets.srt", "00:00:01,000 --> 00:00:02,000\n" + "<" * 9000 + "<v " * 9000 + "{" * 9000 + "\n" * 9000, 10),
        ("blanks.vtt", "WEBVTT\n" + "\n" * 9000 + " " * 9000 + "1:" + " " * 9000 + "\n0:1 --> 0:2\nx\n", 99),
        ("wide.csv", "start,end," + ",".join(f"c{n}" for n in range(9000)) + "\n1,2" + "," * 9000 + "\n", 99),
    ],
)  # fmt: skip
def test_reading_takes_a_bounded_number_of_calls(tmp_path, name, text, most):
    """So that a million lines take seconds, and a run of brackets, blanks or columns no minutes."""
    (tmp_path / name).write_text(text)
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Cuts.read(tmp_path / name)
    finally:
        sys.setprofile(None)
    assert calls < most * 1000
