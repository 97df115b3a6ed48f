"""What may be written over: new files and specdec's own, never an input, never another kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.targets import GATE, PAGE, PICTURE, RECORDINGS, STDOUT, TABLE, TRANSCRIPTS, Kind, refuse, write

OWN: dict[str, tuple[Kind, bytes]] = {
    "o.jsonl": (TRANSCRIPTS, b'{"schema":1,"file":"a.wav","sha256":null}\n'),
    "r.jsonl": (RECORDINGS, b'{"recording":1,"file":"a.wav"}\n'),
    "t.csv": (TABLE, b"name,id,file,start_s,end_s,duration_s,language,caption,finish_reason,error\n"),
    "p.svg": (PICTURE, b'<svg class="rich-terminal" viewBox="0 0 1 1">\n<style>.specdec-matrix {}</style></svg>'),
    "f.png": (PICTURE, b"\x89PNG\r\n\x1a\ntEXtSoftware\0specdec"),
    "h.html": (PAGE, b"<!doctype html>\n<html><head><title>specdec report</title></head></html>"),
    "g.json": (GATE, b'{\n "format": "specdec gate",\n "version": 1}\n'),
}
OTHERS = {
    "RIFF": b"RIFF\x24\0\0\0WAVEfmt ",
    "manifest": b"file,id\na.wav,1\n",
    "manifest of JSON lines": b'{"file": "a.wav", "id": "1"}\n',
    "settings": b'{"threads": 2}',
    "picture": b'<svg xmlns="http://www.w3.org/2000/svg"><path d=""/></svg>',
    "page": b"<!doctype html><title>Mine</title>",
    "notes": "笔记".encode("gbk"),
}


@pytest.mark.parametrize("name", OWN)
def test_its_own_kind_may_be_replaced_and_no_other(tmp_path: Path, name: str) -> None:
    kind, content = OWN[name]
    target = tmp_path / name
    for allowed in (b"", b"\n", content):
        target.write_bytes(allowed)
        refuse({"--to": (target, kind)}, [])
    others = {**OTHERS, **{other: text for other, (_, text) in OWN.items() if not kind.ours(text)}}
    for other, text in others.items():
        target.write_bytes(text)
        with pytest.raises(TranscriptError, match="holds something else than"):
            refuse({"--to": (target, kind)}, [])
        with pytest.raises(TranscriptError, match="holds something else than"):
            write(target, "new", kind)  # also where it appeared while the command ran
        assert target.read_bytes() == text, other


def test_an_input_is_never_a_target_by_whatever_name(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes(OWN["t.csv"][1])
    (tmp_path / "link.csv").symlink_to(table)
    os.link(table, tmp_path / "hard.csv")
    for name in ("t.csv", "link.csv", "hard.csv", "./x/../t.csv"):
        with pytest.raises(ConfigError, match="other inputs"):
            refuse({"--csv": (tmp_path / name, TABLE)}, ["a.wav", None, str(table)])
    with pytest.raises(ConfigError, match="other inputs"):  # not even one that is not there
        refuse({"--csv": (tmp_path / "none.csv", TABLE)}, [tmp_path / "none.csv"])
    with pytest.raises(ConfigError, match="--csv and --output are both"):
        refuse({"--output": (tmp_path / "o", TRANSCRIPTS), "--csv": (tmp_path / "x" / ".." / "o", TABLE)}, [])


def test_a_dash_is_stdout_or_refused_and_never_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in (TRANSCRIPTS, RECORDINGS, PICTURE, PAGE, GATE):
        with pytest.raises(ConfigError, match="takes a file, not -"):
            refuse({"--to": (STDOUT, kind)}, [])
    refuse({"--csv": (STDOUT, TABLE)}, [])
    write(STDOUT, "name,id\n", TABLE)
    assert capsys.readouterr().out == "name,id\n"
    assert os.listdir(tmp_path) == []


def test_a_file_is_written_whole_with_its_mode_and_through_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_bytes(OWN["t.csv"][1])
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, "new", TABLE)
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("new", 0o640)
    for target in (tmp_path, tmp_path / "no" / "t.csv", tmp_path / ("n" * 300)):
        with pytest.raises(TranscriptError, match="cannot be written"):
            write(target, "new", TABLE)
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "real.csv"]
