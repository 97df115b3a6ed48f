"""Lines on disk: whole, from one process at a time, behind a torn end. `captioning/test_outputs_*` fail the disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_cli.errors import TranscriptError
from specdec_cli.journal import LONGEST, lock_file, read_lines
from tests.support.transcripts import Raw, append_transcript, failed_line

HEAD = f"{failed_line('a').to_json()}\n".encode()


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
        code = f"from tests.support.transcripts import *; Raw(Path({str(path)!r}))"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=600, text=True)
        assert "being written by another run" in ended.stderr
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["out.jsonl"]


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
