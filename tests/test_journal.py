"""Lines on disk: whole or not at all, from several processes, on a full disk, behind a torn end."""

import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from specdec_cli.errors import TranscriptError
from specdec_cli.journal import LONGEST, lock_file, read_lines
from specdec_cli.targets import RECORDINGS, TRANSCRIPTS
from tests.captioning.lines import failed_line
from tests.tiers import few
from tests.transcript.lines import Raw, append_transcript

HEAD = f"{failed_line('a').to_json()}\n".encode()
PRELUDE = """
import resource, sys
from contextlib import suppress
from pathlib import Path
from specdec_cli.errors import TranscriptError
from tests.captioning.lines import failed_line
from tests.transcript.lines import append_transcript
path = Path(sys.argv[1])
"""


def python(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def lines(path: Path) -> list[bytes]:
    with Raw(path):  # cuts a torn end off
        return [line.raw for line in read_lines(path)] if path.is_file() else []


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "o.jsonl"
    with path.open("wb") as file:
        file.write(HEAD)
        file.truncate(LONGEST + 2 * len(HEAD))
    with pytest.raises(TranscriptError, match=r"o\.jsonl:2 is longer than 64 MiB"):
        list(read_lines(path))


def test_a_line_torn_anywhere_is_cut_off_and_a_whole_one_is_ended_by_the_next(tmp_path):
    path = tmp_path / "o.jsonl"
    first, second, third = (
        f"{failed_line(message).to_json()}\n".encode() for message in ("1", "zweite 第二行\u2028\x85", "3")
    )
    for length in (*range(0, len(second) - 1, 7), len(second) - 1):
        path.write_bytes(first + second[:length])
        kept = [first, second[:-1]] if length == len(second) - 1 else [first]
        assert lines(path) == kept, length
        append_transcript(path, failed_line("3"))
        assert path.read_bytes() == b"\n".join(line.rstrip(b"\n") for line in [*kept, third]) + b"\n", length
    path.write_bytes(HEAD + bytes(200_000))  # what a power cut leaves
    assert lines(path) == [HEAD]
    assert path.read_bytes() == HEAD


@pytest.mark.parametrize("kind", [TRANSCRIPTS, RECORDINGS])
def test_a_store_of_another_kind_is_left_alone(tmp_path, kind):
    """Passes of `tune` in the output of a batch would make it useless for both; so would captions in recordings."""
    path = tmp_path / "o.jsonl"
    trace = {"recording": 1, "file": "a", "sha256": "0", "duration_s": 1.0, "setup": {}, "edge": {}, "cloud": {}}
    path.write_bytes(before := HEAD if kind is RECORDINGS else f"{json.dumps(trace)}\n".encode())
    with pytest.raises(TranscriptError, match=f"something other than {kind.name}"):
        Raw(path, kind)
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", [b"notes", b'{"a": 1', b'{"schema":2,"file"'])
def test_an_end_of_another_kind_is_left_alone(tmp_path, end):
    path = tmp_path / "o.jsonl"
    path.write_bytes(HEAD + end)
    with pytest.raises(TranscriptError, match="something other than transcripts"):
        lines(path)
    assert path.read_bytes() == HEAD + end


def test_another_process_is_refused_while_the_file_is_held(tmp_path):
    path = tmp_path / "out.jsonl"
    append_transcript(path, failed_line("first"))
    before = path.read_bytes()
    with Raw(path):
        output, _ = python("append_transcript(path, failed_line('second'))", path).communicate(timeout=600)
        assert b"being written by another run" in output
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on file sizes")
@pytest.mark.parametrize(("room", "end"), few([(100, ""), (0, "\n"), (1, "")]))
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, room, end):
    path = tmp_path / "out.jsonl"
    before = (failed_line("kept").to_json() + end).encode()
    path.write_bytes(before)
    code = """
limit = path.stat().st_size + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    append_transcript(path, failed_line("a"))
except TranscriptError as error:
    print(error.message, "|", error.hint)
"""
    output, _ = python(code, path, room).communicate(timeout=600)
    assert b"cannot be written" in output
    assert b"Traceback" not in output
    assert path.read_bytes() == before


def test_a_rewrite_that_is_killed_changes_nothing(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_bytes(before := 2 * f"{failed_line('a').to_json()}\n".encode())  # of which the second line stands
    code = """
import os
from specdec_cli.captioning import output_file
output_file._line_at = lambda *_, **__: os._exit(9)
output_file.Output(path, lambda _: ())
"""
    killed = python(code, path)
    assert (killed.communicate(timeout=600)[0], killed.returncode) == (b"", 9)
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs POSIX")
def test_a_planted_link_leads_nowhere(tmp_path):
    path, mine = tmp_path / "out.jsonl", tmp_path / "mine"
    mine.write_text("mine")
    lock_file(path).symlink_to(mine)
    with pytest.raises(TranscriptError), Raw(path) as store:
        store.append('{"schema":1}')
    assert mine.read_text() == "mine"


def test_it_is_held_by_whatever_name_and_its_own_files_have_short_ones(tmp_path):
    path, link = tmp_path / ("n" * 254), tmp_path / "link"
    link.symlink_to(path)
    with Raw(path) as store:
        store.append("{}")
        assert lock_file(path).exists()
        with pytest.raises(TranscriptError, match="being written by another run"):
            Raw(link)
    assert sorted(os.listdir(tmp_path)) == ["link", path.name]


def test_lines_and_rewrites_are_on_the_disk_before_the_run_goes_on(tmp_path, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size) or fsync(descriptor))
    path = tmp_path / "o.jsonl"
    with Raw(path) as store:
        for written in (HEAD, HEAD * 2):
            store.append(HEAD.decode().rstrip("\n"))
            assert synced[-1] == len(written)
        store.rewrite([HEAD])
    assert synced == [len(HEAD), 2 * len(HEAD), len(HEAD)]


def test_the_file_of_a_lock_is_deleted_while_the_lock_is_held(tmp_path, monkeypatch):
    """Else another run could take it in between, and a third one could make a new file and take that."""
    path, unlink, held = tmp_path / "o.jsonl", Path.unlink, list[bool]()

    def watched(self: Path, missing_ok: bool = False) -> None:
        if self == lock_file(path):
            with pytest.raises(TranscriptError, match="being written by another run"):
                Raw(path)
            held.append(True)
        unlink(self, missing_ok=missing_ok)

    store = Raw(path)
    monkeypatch.setattr("pathlib.Path.unlink", watched)
    store.__exit__(None, None, None)
    assert held == [True]


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays")
@pytest.mark.parametrize("how", ["deleted", "moved", "swapped for a link", "lock deleted"])
def test_an_output_that_is_taken_away_during_a_run_ends_it_and_nothing_else_is_written(tmp_path, how):
    path, mine = tmp_path / "o.jsonl", tmp_path / "mine.jsonl"
    mine.write_text("mine")
    with Raw(path) as store:
        store.append("{}")
        if how == "lock deleted":
            lock_file(path).unlink()
        elif how == "moved":
            path.rename(tmp_path / "moved.jsonl")
        else:
            path.unlink()
        if how == "swapped for a link":
            path.symlink_to(mine)
        said = "its lock .* was deleted" if how == "lock deleted" else "it was moved, deleted or replaced"
        with pytest.raises(TranscriptError, match=said):
            store.append("{}")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("call", ["os.fsync", "os.link", "pathlib.Path.replace", "os.stat", "os.open"])
def test_a_system_that_refuses_any_one_call_costs_no_line(tmp_path, monkeypatch, call):
    """The first, second ... of these calls fails; what was written before is there, and the next run goes on."""
    place, name = call.rsplit(".", 1)
    owner = Path if place.startswith("pathlib") else os
    real, failed, n = getattr(owner, name), True, 0
    while failed:
        n, failed = n + 1, False
        left = n

        def refuse(*given: object, **more: object) -> object:
            nonlocal left, failed
            left -= 1
            if left == 0:
                failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*given, **more)

        path, before = tmp_path / f"{n}.jsonl", b"" if call == "os.link" else HEAD
        if before:
            path.write_bytes(before)
        with monkeypatch.context() as patched, suppress(TranscriptError):
            patched.setattr(f"{place}.{name}", refuse)
            with Raw(path) as store:
                store.append(HEAD.decode().rstrip("\n"))
                store.rewrite([HEAD, HEAD])
        found = path.read_bytes() if path.exists() else b""
        assert found in (before, before + HEAD, HEAD * 2), (call, n)
        with Raw(path) as store:
            store.append(HEAD.decode().rstrip("\n"))
        assert path.read_bytes() == found + HEAD
        assert not [each for each in os.listdir(tmp_path) if ".specdec-" in each and not each.endswith(".lock")]
    assert n > 1
