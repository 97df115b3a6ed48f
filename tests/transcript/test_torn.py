"""The end of a file of lines after a crash, of every length."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.writer import last_line, mend
from tests.transcript.test_schema import failed


def whole(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True


def test_a_line_torn_anywhere_is_cut_off_and_a_whole_one_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    lines = [failed(message).to_json().encode() + b"\n" for message in ("first", "zweite Zeile, 第二行")]
    for length in range(len(lines[1])):
        path.write_bytes(lines[0] + lines[1][:length])
        mend(path, whole)
        kept = lines if length == len(lines[1]) - 1 else lines[:1]
        assert path.read_bytes() == b"".join(kept), length


def test_zeros_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b"{}\n" + bytes(200_000))
    mend(path, whole)
    assert path.read_bytes() == b"{}\n"


@pytest.mark.parametrize("end", [b"notes", b'{"a": 1', b'{"schema":2,"file"'])
def test_an_end_of_another_kind_is_left_alone(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b"{}\n" + end)
    with pytest.raises(TranscriptError, match="something else"):
        mend(path, whole)
    assert path.read_bytes() == b"{}\n" + end


def test_a_file_that_needs_nothing_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b"{}\n")
    path.chmod(0o444)
    before = path.stat()
    mend(path, whole)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_the_last_line_is_found_across_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "o"
    for before in (b"", b"\n", b"x" * 70_000 + b"\n"):
        path.write_bytes(before + b"y" * size)
        descriptor = os.open(path, os.O_RDONLY)
        assert last_line(descriptor) == (len(before), b"y" * size)
        os.close(descriptor)
