"""Lines on disk: whole or not at all, from several processes, on a full disk, behind a broken end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_cli import Transcript
from specdec_cli.errors import TranscriptError
from specdec_cli.targets import TRANSCRIPTS, require_ours
from tests.transcript.lines import append_transcript, read_transcripts
from tests.transcript.test_schema import failed

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
PRELUDE = """
import resource, sys
from pathlib import Path
from specdec_cli.errors import TranscriptError
from specdec_cli.transcript import Transcript
from tests.transcript.lines import append_transcript
path, line = Path(sys.argv[1]), Path(sys.argv[2])
transcript = Transcript.model_validate_json(line.read_text("utf-8"))
"""


@pytest.fixture
def line(tmp_path: Path, transcripts: dict[str, Transcript]) -> Path:
    """A file with one transcript."""
    path = tmp_path / "line.json"
    path.write_text(transcripts["hybrid-zh"].to_json(), "utf-8")
    return path


def python(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_lines_come_back_as_they_were(tmp_path: Path, transcripts: dict[str, Transcript]) -> None:
    path = tmp_path / "out.jsonl"
    for transcript in transcripts.values():
        append_transcript(path, transcript)
    append_transcript(path, failed())
    assert list(read_transcripts(path)) == [*transcripts.values(), failed()]


def test_unusual_line_breaks_inside_a_text_do_not_split_a_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    odd = failed("one\u2028two\u2029three\x85four\x0bfive\x1csix")
    append_transcript(path, odd)
    append_transcript(path, failed())
    assert list(read_transcripts(path)) == [odd, failed()]


def test_processes_that_write_at_once_write_whole_lines(tmp_path: Path, line: Path) -> None:
    path = tmp_path / "out.jsonl"
    code = """
for number in range(25):
    append_transcript(path, transcript.model_copy(update={"file": f"{sys.argv[3]}-{number}"}))
"""
    writers = [python(code, path, line, writer) for writer in range(4)]
    assert [(writer.communicate(timeout=60)[0], writer.returncode) for writer in writers] == [(b"", 0)] * 4
    names = [transcript.file for transcript in read_transcripts(path)]
    assert len(names) == 100
    for writer in range(4):  # nothing lost, and each in its own order
        assert [name for name in names if name.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(25)]


def test_a_file_without_a_last_newline_keeps_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(failed("first").to_json(), "utf-8")
    append_transcript(path, failed("second"))
    assert [t.error.message for t in read_transcripts(path) if t.error] == ["first", "second"]
    assert path.read_bytes().count(b"\n") == 2


def test_half_a_line_left_by_a_crash_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(failed("first").to_json().encode() + b'\n{"schema":1,"fi')
    append_transcript(path, failed("second"))
    lines = path.read_text("utf-8").splitlines()
    assert json.loads(lines[0])["error"]["message"] == "first"
    assert json.loads(lines[2])["error"]["message"] == "second"
    with pytest.raises(TranscriptError, match=r"out\.jsonl:2 is no transcript"):
        list(read_transcripts(path))


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on file sizes")
@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, line: Path, room: int, end: str) -> None:
    path = tmp_path / "out.jsonl"
    before = (failed("kept").to_json() + end).encode()
    path.write_bytes(before)
    code = """
limit = path.stat().st_size + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    append_transcript(path, transcript)
except TranscriptError as error:
    print(error.message, "|", error.hint)
"""
    output, _ = python(code, path, line, room).communicate(timeout=60)
    assert b"cannot be written" in output
    assert b"Traceback" not in output
    assert path.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_without_room_is_reported() -> None:
    with pytest.raises(TranscriptError, match="No space left"):
        append_transcript(Path("/dev/full"), failed())


def test_a_path_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "out.jsonl", tmp_path / ("n" * 300)):
        with pytest.raises(TranscriptError, match="cannot be written"):
            append_transcript(path, failed())
        with pytest.raises(TranscriptError):
            require_ours(path, TRANSCRIPTS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_a_folder_without_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(TranscriptError, match="Permission denied"):
            require_ours(tmp_path / "out.jsonl", TRANSCRIPTS)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("content", [b"RIFF\x24\0\0\0WAVEfmt ", b"# Notes\n", b"name,caption\n", b"\x89PNG\r\n"])
def test_a_file_of_another_kind_is_not_appended_to(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(TranscriptError, match="something else than transcripts"):
        require_ours(path, TRANSCRIPTS)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\n", b'{"schema":1', b'\n {"schema":1}\n'])
def test_an_empty_file_and_one_of_objects_are_appended_to(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(content)
    require_ours(path, TRANSCRIPTS)
    require_ours(tmp_path / "new.jsonl", TRANSCRIPTS)
    assert path.read_bytes() == content
    assert not (tmp_path / "new.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"{}\n", ":1 is no transcript of schema 1: file: Field required"),
        (b"\n\nnonsense\n", ":3 is no transcript of schema 1: line: Invalid JSON"),
        (b'[{"schema": 1}]\n', ":1 is no transcript"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused_with_the_line(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(content)
    with pytest.raises(TranscriptError) as caught:
        list(read_transcripts(path))
    assert named in caught.value.message
    assert str(path) in caught.value.message
