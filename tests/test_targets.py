"""What may be written over: new files and specdec's own as it wrote them, never an input, never another kind."""

import os
from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.plot.picture import picture
from specdec_cli.targets import (
    CALIBRATION,
    GATE,
    PAGE,
    PICTURE,
    RECORDINGS,
    REVIEW,
    STDOUT,
    TRANSCRIPTS,
    Kind,
    refuse,
    to_stdout,
    write,
)
from tests.batch.lines import good_line
from tests.transcript.lines import Raw

CONTENT: dict[str, tuple[Kind, bytes]] = {
    "p.svg": (PICTURE, picture(lambda _: None, "svg", "Ein Bild")[0]),
    "f.png": (PICTURE, picture(lambda _: None, "png", "Ein Bild")[0]),
    "d.pdf": (PICTURE, picture(lambda _: None, "pdf", "Ein Bild")[0]),
    "h.html": (PAGE, b"<!doctype html>\n<html><head><title>specdec report</title></head></html>"),
    "r.html": (REVIEW, b"<!doctype html>\n<html><head><title>specdec review</title></head></html>\n"),
    "g.json": (GATE, b'{\n "format": "specdec gate",\n "version": 1}\n'),
    "c.json": (CALIBRATION, b'{\n "format": "specdec calibration",\n "version": 1\n}'),
}
TRACE = (
    b'{"recording":1,"file":"a.wav","sha256":"0","duration_s":1.0,"setup":{},"edge":{},"cloud":{},"cloud_caption":""}\n'
)
JOURNALS: dict[str, tuple[Kind, bytes]] = {
    "o.jsonl": (TRANSCRIPTS, f"{good_line('a.wav').to_json()}\n".encode()),
    "t.jsonl": (RECORDINGS, TRACE),
}
OTHERS = {
    "RIFF": b"RIFF\x24\0\0\0WAVEfmt ",
    "manifest of JSON lines": b'{"file": "a.wav", "id": "1"}\n',
    "JSON lines of another schema": b'{"schema":1,"file":"a.wav","text":"mine"}\n',
    "picture": b'<svg xmlns="http://www.w3.org/2000/svg"><path d=""/></svg>',
    "picture about specdec": b"<svg><desc>specdec</desc><!-- specdec:picture: --></svg>",
    "page": b"<!doctype html><title>specdec report</title>",
    "page behind blank lines": b"\n" * 17_000 + b"<!doctype html><title>Mine</title>",
    "blanks": b" " * 18_000,
    "blank line": b"\n",
    "disk image": bytes(20_000) + b"data",
    "notes": "笔记".encode("gbk"),
    "mark alone": b"<!-- specdec:picture:" + b"0" * 64 + b" -->\n",
}


def written(folder: Path, name: str) -> tuple[Path, Kind, bytes]:
    """A file of specdec's."""
    target = folder / name
    if name in JOURNALS:
        kind, content = JOURNALS[name]
        target.write_bytes(content)
    else:
        kind, content = CONTENT[name]
        target.unlink(missing_ok=True)
        write(target, content, kind)
    return target, kind, target.read_bytes()


def refused(target: Path, kind: Kind, content: bytes) -> None:
    """A file with this content stays."""
    target.write_bytes(content)
    with pytest.raises(TranscriptError, match="holds something other than"):
        refuse("--to", target, kind, [])
    with pytest.raises(TranscriptError, match="holds something other than"):  # also where it came in between
        write(target, b"<new>", kind) if kind.mark else Raw(target, kind, read=False)
    assert target.read_bytes() == content


@pytest.mark.parametrize("name", [*CONTENT, *JOURNALS])
def test_its_own_kind_may_be_replaced_and_no_other(tmp_path, name):
    target, kind, content = written(tmp_path, name)
    for allowed in (b"", content):
        target.write_bytes(allowed)
        refuse("--to", target, kind, [])
    elsewhere = tmp_path / "others"
    elsewhere.mkdir()
    others = {other: written(elsewhere, other) for other in (*CONTENT, *JOURNALS)}
    for other in [*OTHERS.values(), *(made for _, of, made in others.values() if of is not kind)]:
        refused(target, kind, other)
    if kind.mark:
        target.write_bytes(content)
        write(target, CONTENT[name][1], kind)
        assert target.read_bytes() == content  # as it was: the mark is of the content


@pytest.mark.parametrize("name", CONTENT)
def test_what_was_edited_since_stays(tmp_path, name):
    target, kind, content = written(tmp_path, name)
    edits = [
        content[:-at] + bytes([content[-at] ^ 1]) + content[len(content) - at + 1 :]
        for at in range(1, min(220, len(content)), 7)
    ]
    middle = len(content) // 2
    edits += [content[:middle] + b"x" + content[middle:], content + b"\n", b"\n" + content, content[:-1], content * 2]
    for edited in edits:
        if edited != content:
            refused(target, kind, edited)


def test_pictures_with_a_mark_are_whole(tmp_path):
    from xml.etree import ElementTree

    import matplotlib.image

    target, *_ = written(tmp_path, "f.png")
    assert matplotlib.image.imread(target).shape[2] == 4
    assert ElementTree.fromstring(written(tmp_path, "p.svg")[2]).tag.endswith("svg")
    assert written(tmp_path, "d.pdf")[2].startswith(b"%PDF")


@pytest.mark.parametrize("kind", [PICTURE, TRANSCRIPTS], ids=lambda kind: kind.name)
def test_a_file_that_comes_while_a_command_runs_stays(tmp_path, kind, monkeypatch):
    target = tmp_path / "new.svg"
    if kind.mark:
        monkeypatch.setattr("specdec_cli.targets.require_ours", lambda *_: target.write_text("mine") < 0)
        with pytest.raises(TranscriptError, match="cannot be written: File exists"):
            write(target, b"<svg/>", kind)
    else:
        with Raw(target, kind) as store:
            target.write_text("mine")
            with pytest.raises(TranscriptError, match="cannot be written: File exists"):
                store.append("{}")
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["new.svg"]


def test_an_input_is_never_a_target_by_whatever_name(tmp_path):
    page, *_ = written(tmp_path, "h.html")
    (tmp_path / "link.html").symlink_to(page)
    os.link(page, tmp_path / "hard.html")
    for name in ("h.html", "link.html", "hard.html", "./x/../h.html"):
        with pytest.raises(ConfigError, match="other inputs"):
            refuse("--html", tmp_path / name, PAGE, ["a.wav", None, str(page)])
    with pytest.raises(ConfigError, match="other inputs"):  # not even one that is not there
        refuse("--html", tmp_path / "none.html", PAGE, [tmp_path / "none.html"])


def test_a_dash_is_refused_and_never_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for kind in (TRANSCRIPTS, RECORDINGS, PICTURE, PAGE, GATE):
        with pytest.raises(ConfigError, match="takes a file, not -"):
            refuse("--to", STDOUT, kind, [])
    to_stdout(["name,", "id\n"])
    assert capsys.readouterr().out == "name,id\n"
    assert os.listdir(tmp_path) == []


def test_a_file_is_written_whole_with_its_mode_and_through_a_link(tmp_path):
    real, _, before = written(tmp_path, "h.html")
    link = tmp_path / "link.html"
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, "<html>new</html>", PAGE)
    assert link.is_symlink()
    assert (real.read_bytes() != before, real.stat().st_mode & 0o777) == (True, 0o640)
    for target in (tmp_path, tmp_path / "no" / "t.html", tmp_path / ("n" * 300)):
        with pytest.raises(TranscriptError, match="cannot be written"):
            write(target, "<html>", PAGE)
    assert sorted(os.listdir(tmp_path)) == ["h.html", "link.html"]
    (tmp_path / "dangling.html").symlink_to(tmp_path / "later.html")
    write(tmp_path / "dangling.html", "<html>", PAGE)
    with Raw(tmp_path / "dangling.jsonl") as store:
        store.append("{}")
    assert (tmp_path / "later.html").is_file()
