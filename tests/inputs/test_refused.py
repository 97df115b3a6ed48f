"""Manifests and files of cuts that no sense can be made of: each is refused with its line and a hint."""

import gzip
import json
import os
import tracemalloc
from typing import Any, Final

import pytest

from specdec_cli.errors import ConfigError, ReferencesError
from specdec_cli.inputs import table_files, text_files
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.table_files import read_table
from tests.inputs.formats import LHOTSE, RTTM, SRT, TEXTGRID

LONG: Final = "9" * 400
TALK: Final = {"wav.scp": "talk a b.wav\n"}
OF_COMMAND: Final = {**LHOTSE, "recording": {"id": "r", "sources": [{"type": "command", "source": "sox"}]}}
OF_NUMBER: Final = {**LHOTSE, "recording": {"id": "r", "duration": 9, "sources": [{"type": "file", "source": 5}]}}
SPED_UP: Final = {**LHOTSE, "recording": {**LHOTSE["recording"], "transforms": [{"name": "Speed", "kwargs": {}}]}}


def rows(*found: Any) -> str:
    """JSON lines."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in found)


def grid(old: str, new: str) -> dict[str, str]:
    """A TextGrid with one thing changed."""
    assert old in TEXTGRID
    return {"c.TextGrid": TEXTGRID.replace(old, new)}


MANIFESTS: list[tuple[dict[str, str], str]] = [
    ({"l.tsv": "name\tid\na.wav\t1\n"}, "l.tsv has no column file, path, "),
    ({"l.tsv": "file\tlanguage\na.wav\tfr\n"}, "l.tsv, line 2: captions are in zh or en, not in 'fr'"),
    ({"l.tsv": "file\tprompt\na.wav\t<|AUDIO|>\n"}, "l.tsv, line 2: prompt.text"),
    ({"l.tsv": "file\tid\n\t1\n"}, "l.tsv, line 2: no recording is named"),
    ({"l.tsv": "file\tid\na.wav\t1\nb.wav\t1\n"}, "l.tsv, line 3: the id '1' is also that of "),
    ({"l.tsv": "file\tid\na.wav\n"}, "l.tsv, line 2: 1 cells"),
    ({"l.tsv": "file\na.wav\n./a.wav\n"}, "l.tsv, line 3: "),
    ({"l.jsonl": '{"file": ["a.wav", "b.wav"]}\n'}, "l.jsonl, line 1: column file: one value was expected"),
    ({"l.txt": "a.wav\n"}, "its ending is '.txt'"),
    ({"wav.scp": "a a.wav\nb sph2pipe -f wav b.sph |\n"}, "wav.scp, line 2: 'b' is a command"),
    ({"wav.scp": "a a.wav\na b.wav\n"}, "wav.scp, line 2: 'a' is in "),
    ({"wav.scp": "\n"}, "wav.scp names no recordings"),
    ({"wav.scp": "a\n"}, "wav.scp, line 1: no recording is named"),
    ({**TALK, "segments": "u nobody 0 1\n"}, "segments, line 1: "),
    ({**TALK, "segments": "u talk x 1\n"}, "segments, line 1: 'x' is no time"),
    ({**TALK, "segments": "u talk 0 1\nv talk 2 1\n"}, "segments, line 2: it ends before it begins: 2 s to 1 s"),
    ({**TALK, "segments": "u talk 0 1\nu talk 1 2\n"}, "segments, line 2: the id 'u' is also that of"),
    ({"m.jsonl": rows({"audio_filepath": "a.wav"}, {"text": "x"})}, "line 2: no recording is named"),
    ({"m.jsonl": rows({"audio_filepath": "a", "offset": 1, "duration": 0})}, "line 1: it has no length: 1 s to 1 s"),
    (
        {"m.jsonl": rows({"audio_filepath": "a", "offset": -1, "duration": 1})},
        "line 1: it is no part of a recording: -1 s to 0 s",
    ),
    ({"m.jsonl": rows({"audio_filepath": "a.wav"}, "{")}, "line 2: not valid JSON"),
    (
        {"m.jsonl": rows({"audio_filepath": "a", "offset": 1.5, "duration": 1e8})},
        "line 1: it is no part of a recording",
    ),
    ({"m.jsonl": rows(LHOTSE, {"id": "x", "type": "MixedCut", "tracks": []})}, "line 2: this is no cut of a recording"),
    ({"m.jsonl": rows(LHOTSE, {**LHOTSE, "id": "x", "start": None})}, "line 2: null is no time"),
    ({"m.jsonl": rows(LHOTSE, LHOTSE)}, "line 2: the id 'cut-1' is also that of"),
    *[({"m.jsonl": rows(cut)}, "line 1: this is no cut of a recording") for cut in (OF_COMMAND, OF_NUMBER, SPED_UP)],
]
CUTS: list[tuple[dict[str, str], str]] = [
    ({"c.rttm": RTTM + "SPEAKER talk 1 x 0.8 <NA> <NA> A <NA> <NA>\n"}, "c.rttm, line 6: 'x' is no time"),
    ({"c.rttm": "SPEAKER talk 1 0.7\n"}, "c.rttm, line 1: this is no line of RTTM"),
    (
        {"c.rttm": "SPEAKER talk 1 -1 0.8 <NA> <NA> A <NA> <NA>\n"},
        "line 1: it is no part of a recording: -1 s to -0.2 s",
    ),
    ({"c.rttm": f"SPEAKER a 1 1.0 {LONG} <NA> <NA> s <NA> <NA>\n"}, "line 1: "),
    ({"c.srt": SRT.replace("00:00:02,200", "00:00:xx")}, "c.srt, line 6: no times"),
    ({"c.srt": SRT.replace("00:00:02,200", "00:00:05,200")}, "c.srt, line 6: it ends before it begins: 5.2 s to 3 s"),
    ({"c.vtt": "WEBVTT\n"}, "c.vtt has no cuts"),
    ({"c.TextGrid": "nonsense"}, "c.TextGrid is no TextGrid that can be read: its first lines are others"),
    ({"c.TextGrid": TEXTGRID[:400]}, "c.TextGrid, at its end: the file ends within an interval"),
    (grid("xmax = 0.7", "xmax = soon"), "'0.7' of 'Ann': it has no times of its own"),
    (grid("xmax = 1.5", "xmax = 0.5"), "'你好。' of 'Ann': it ends before it begins: 0.7 s to 0.5 s"),
    ({"c.json": '{"segments": [{"start": 1, "end": null}]}'}, "c.json, item 1: it has no end"),
    ({"c.json": '{"words": []}'}, "c.json has no columns start and end"),
    ({"c.json": "[" * 100_000}, "c.json: not valid JSON: recursion limit exceeded"),
    ({"c.csv": "begin,text\n1,a\n"}, "c.csv has no columns start and end"),
    ({"c.csv": "start,end\n1\n"}, "c.csv, line 2: 1 cells"),
    ({"c.txt": "1 2\n"}, "c.txt, line 1: this is no label"),
    ({"c.doc": "1 2\n"}, "its ending is '.doc'"),
]


@pytest.mark.parametrize(("files", "said"), MANIFESTS + CUTS, ids=lambda value: value if isinstance(value, str) else "")
def test_it_is_refused_with_its_line(tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ConfigError) as raised:
        (Manifest if (files, said) in MANIFESTS else Cuts).read(tmp_path / next(iter(files)), strict=True)
    assert said in raised.value.message
    assert raised.value.hint


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz", "wav.scp"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ReferencesError, match="no regular file"):
        Manifest.read(tmp_path / name)


def test_a_torn_archive_is_refused(tmp_path):
    (tmp_path / "cuts.jsonl.gz").write_bytes(gzip.compress(rows(LHOTSE).encode())[:-20])
    with pytest.raises(ConfigError, match=r"cuts\.jsonl\.gz cannot be read"):
        Manifest.read(tmp_path / "cuts.jsonl.gz")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_read_is_bounded_once_unpacked(tmp_path, name, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_BYTES", 1 << 20)
    content = b" " * (2 << 20)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(ReferencesError, match="more than 1 MiB"):
        Manifest.read(tmp_path / name)


@pytest.mark.ci
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


@pytest.mark.ci
def test_runs_of_brackets_cues_and_wide_tables_are_parsed_in_linear_time(tmp_path):
    (tmp_path / "a.srt").write_text("00:01.000 --> 00:02.000\n" + "<" * 400_000 + "<v " * 100_000 + "\n")
    (tmp_path / "wide.csv").write_text(",".join(f"c{index}" for index in range(100_000)) + "\nx" + "," * 99_999 + "\n")
    cue = "00:01.000 --> 00:02.000\n"
    (tmp_path / "cues.srt").write_text(f"{cue}x\n\n" * 200_000 + cue * 200_000)
    Cuts.read(tmp_path / "a.srt")
    assert len(Cuts.read(tmp_path / "cues.srt").of("a.wav")) == 400_000
    assert len(read_table(tmp_path / "wide.csv").columns) == 100_000
