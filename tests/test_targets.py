"""What may be replaced: specdec's own files as it wrote them, others by consent, and what is read never."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_cli.config import load_config
from specdec_cli.errors import ConfigError, TranscriptError, WrongFileError
from specdec_cli.targets import PAGE, PICTURE, RECORDINGS, STDOUT, TRANSCRIPTS, FileKind, Targets, to_stdout
from specdec_cli.written import HEAD, Digests, digest_of
from tests.support.transcripts import Raw, good_line

TRANSCRIPT = f"{good_line('a.wav').to_json()}\n".encode()
TRACE = b'{"recording":1,"file":"a.wav","sha256":"0","setup":{},"edge":{},"cloud":{}}\n'
OTHERS = {
    "RIFF": b"RIFF\x24\0\0\0WAVEfmt ",
    "manifest of JSON lines": b'{"file": "a.wav", "id": "1"}\n',
    "JSON lines of another schema": b'{"schema":1,"file":"a.wav","text":"mine"}\n',
    "JSON without a name": b'{"": 0}\n',
    "page": b"<!doctype html><title>specdec report</title>",
    "transcripts behind blank lines": b"\n" * 17_000 + TRANSCRIPT,
    "blank line": b"\n",
    "disk image": bytes(20_000) + b"data",
    "notes": "笔记".encode("gbk"),
}


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    """The list of digests, which is not there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "specdec" / "written"


def edits(content: bytes) -> list[bytes]:
    middle = len(content) // 2
    flipped = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(0, len(content), 7)]
    return [*flipped, content[:middle] + b"x" + content[middle:], content + b"\n", b"\n" + content, content[:-1]]


def test_what_specdec_wrote_is_replaced_until_somebody_edits_it(tmp_path, state):
    target = tmp_path / "page.html"
    for content in ("<p>1</p>", "<p>2</p>", "<p>1</p>"):
        Targets().refuse("-o", target, PAGE)
        Targets().write(target, content)
        assert target.read_text() == content
    for edited in edits(b"<p>1</p>"):
        target.write_bytes(edited)
        with pytest.raises(WrongFileError, match="specdec did not write it, or it was edited since") as refused:
            Targets().refuse("-o", target, PAGE)
        assert refused.value.hint == "Name a new file, or replace it: --overwrite."
        with pytest.raises(WrongFileError):  # also where it was edited while the command ran
            Targets().write(target, "<p>3</p>")
        assert target.read_bytes() == edited
    Targets(overwrite=True).write(target, "<p>3</p>")
    Targets().write(target, "<p>4</p>")
    assert (sorted(os.listdir(tmp_path)), os.listdir(state.parent)) == (["page.html", "state"], ["written"])


@pytest.mark.parametrize("name", OTHERS)
def test_what_others_wrote_is_replaced_by_consent_alone(tmp_path, state, name):
    for kind, target in (
        (PICTURE, tmp_path / "a.png"),
        (TRANSCRIPTS, tmp_path / "a.jsonl"),
        (RECORDINGS, tmp_path / "b.jsonl"),
    ):
        target.write_bytes(OTHERS[name])
        with pytest.raises(WrongFileError):
            Targets().refuse("-o", target, kind)
        with pytest.raises(WrongFileError):
            Targets().write(target, "new") if kind is PICTURE else Raw(target, kind)
        assert target.read_bytes() == OTHERS[name]
        Targets(overwrite=True).refuse("-o", target, kind)
        if kind is PICTURE:
            Targets(overwrite=True).write(target, "new")
        else:
            with Raw(target, kind, overwrite=True) as journal:
                assert target.read_bytes() == OTHERS[name]  # until there is something new
                journal.append("new")
        assert target.read_bytes().strip() == b"new"


@pytest.mark.parametrize(("kind", "own", "other"), [(TRANSCRIPTS, TRANSCRIPT, TRACE), (RECORDINGS, TRACE, TRANSCRIPT)])
def test_json_lines_are_resumed_by_any_name_and_none_of_another_kind(tmp_path, kind, own, other):
    for name in ("a.jsonl", "notes"):
        (tmp_path / name).write_bytes(own)
        Targets().refuse("-o", tmp_path / name, kind)
    (tmp_path / "a.jsonl").write_bytes(other)
    with pytest.raises(WrongFileError, match=f"a.jsonl holds something other than {kind.name}; it stays as it is"):
        Targets().refuse("-o", tmp_path / "a.jsonl", kind)
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(ConfigError, match=r"a\.wav does not end in \.jsonl"):  # not even by consent
        Targets(overwrite=True).refuse("-o", tmp_path / "a.wav", kind)


@pytest.mark.parametrize("content", [b"", b"new"])
def test_an_empty_file_and_one_with_the_same_content_are_nobody_s(tmp_path, state, content):
    (tmp_path / "a.csv").write_bytes(content)
    Targets().write(tmp_path / "a.csv", "new")
    Targets().write(tmp_path / "a.csv", "newer")
    assert (tmp_path / "a.csv").read_text() == "newer"


def test_what_is_read_is_never_written_by_whatever_name(tmp_path):
    page = tmp_path / "h.html"
    page.write_text("mine")
    (tmp_path / "link.html").symlink_to(page)
    os.link(page, tmp_path / "hard.html")
    (tmp_path / "cuts" / "deep").mkdir(parents=True)
    cuts = tmp_path / "cuts" / "deep" / "a.TextGrid"
    cuts.write_text("mine")
    reads = load_config("mini", flags={"audio.segment": str(tmp_path / "cuts")}, environ={}).reads
    targets = Targets(["a.wav", None, str(page), tmp_path / "none.html", *reads], overwrite=True)
    for name in ("h.html", "link.html", "hard.html", "./x/../h.html", "none.html", "cuts/deep/a.TextGrid"):
        with pytest.raises(WrongFileError, match="is one of the files that are read"):
            targets.write(tmp_path / name, "new")
    assert (page.read_text(), cuts.read_text()) == ("mine", "mine")


def test_a_dash_is_refused_and_never_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for kind in (TRANSCRIPTS, PICTURE):
        with pytest.raises(ConfigError, match="takes a file, not -"):
            Targets().refuse("-o", STDOUT, kind)
    to_stdout(["name,", "id\n"])
    assert capsys.readouterr().out == "name,id\n"
    assert os.listdir(tmp_path) == []


def test_a_file_is_written_whole_with_its_mode_and_through_a_link(tmp_path):
    real, link = tmp_path / "h.html", tmp_path / "link.html"
    Targets().write(real, "<html>")
    real.chmod(0o640)
    link.symlink_to(real)
    Targets().write(link, "<html>new</html>")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("<html>new</html>", 0o640)
    for target in (tmp_path, tmp_path / "no" / "t.html", tmp_path / ("n" * 300), Path("a\0b.html")):
        with pytest.raises(TranscriptError, match="cannot be written"):
            Targets().write(target, "<html>")
    assert sorted(os.listdir(tmp_path)) == ["h.html", "link.html"]
    (tmp_path / "dangling.html").symlink_to(tmp_path / "later.html")
    Targets().write(tmp_path / "dangling.html", "<html>")
    with Raw(tmp_path / "dangling.html", TRANSCRIPTS, overwrite=True) as store:
        store.append("{}")
    assert (tmp_path / "later.html").read_text() == "{}\n"


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("kind", [PICTURE, TRANSCRIPTS], ids=lambda kind: kind.name)
def test_a_file_that_comes_while_a_command_runs_stays(tmp_path, monkeypatch, kind: FileKind, links):
    target = tmp_path / "new"

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr("os.link", refuse)
    if kind is PICTURE:
        monkeypatch.setattr("specdec_cli.targets._digest_at", lambda *_: target.write_text("mine") and None)
        with pytest.raises(TranscriptError, match="cannot be written: File exists"):
            Targets().write(target, b"<svg/>")
    else:
        with Raw(target, kind) as store:
            target.write_text("mine")
            with pytest.raises(TranscriptError, match="cannot be written: File exists"):
                store.append("{}")
    assert target.read_text() == "mine"
    target.unlink()
    monkeypatch.undo()
    Targets().write(target, b"<svg/>")
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("denied", ["a.html", "."])
def test_what_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, denied):
    """Asked of the system, since tests may run as a user for whom no permission counts."""
    target = tmp_path / "a.html"
    Targets().write(target, "own")
    access, of = os.access, tmp_path / denied
    monkeypatch.setattr("os.access", lambda path, mode: path != of and access(path, mode))
    with pytest.raises(WrongFileError, match="cannot be written: Permission denied"):
        Targets(overwrite=True).refuse("-o", target, PAGE)


# --- the list itself ---


def spoil(state: Path, how: str, mine: Path) -> None:
    state.parent.mkdir(parents=True)
    match how:
        case "a link":
            mine.write_bytes(HEAD)
            state.symlink_to(mine)
        case "a folder":
            state.mkdir()
        case "of another origin":
            state.write_text("mine\n")
        case "a folder that is a file":
            state.parent.rmdir()
            state.parent.write_text("mine\n")


@pytest.mark.parametrize("how", ["a link", "a folder", "of another origin", "a folder that is a file"])
def test_without_a_usable_list_everything_that_exists_needs_consent_and_the_refusal_says_so(tmp_path, state, how):
    mine = tmp_path / "mine"
    spoil(state, how, mine)
    before = mine.read_bytes() if how == "a link" else state.read_bytes() if state.is_file() else b""
    target = tmp_path / "a.html"
    Targets().write(target, "1")
    with pytest.raises(WrongFileError) as refused:
        Targets().write(target, "2")
    assert f"specdec knows no file that it wrote: {state.parent}" in (refused.value.hint or "")
    Targets(overwrite=True).write(target, "3")
    assert target.read_text() == "3"
    assert before == (mine.read_bytes() if how == "a link" else state.read_bytes() if state.is_file() else b"")


def test_a_user_without_a_home_folder_has_no_list(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    Targets().write(tmp_path / "a.html", "1")
    with pytest.raises(WrongFileError) as refused:
        Targets().write(tmp_path / "a.html", "2")
    assert "XDG_STATE_HOME: There is no home folder." in (refused.value.hint or "")


def test_a_line_that_a_full_disk_cut_off_costs_no_other(state):
    Digests().add(digest_of(b"1"))
    state.write_bytes(state.read_bytes()[:-9])
    Digests().add(digest_of(b"2"))
    assert [Digests().holds(digest_of(content)) for content in (b"1", b"2", b"")] == [False, True, False]


def test_processes_add_to_it_at_once_and_know_of_each_other(state):
    code = "import sys; from specdec_cli.written import *; one = Digests()\n"
    code += "for n in range(200): one.add(digest_of(f'{sys.argv[1]} {n}'.encode()))"
    early = Digests()
    both = [subprocess.Popen([sys.executable, "-c", code, name], env=os.environ) for name in "ab"]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert all(early.holds(digest_of(f"{name} {n}".encode())) for name in "ab" for n in range(200))
    lines = state.read_bytes().splitlines()
    # both may have begun it; and if one sees half of the other's write, which seems cut off, an empty line follows that
    assert len([line for line in lines if line]) in (401, 402)
