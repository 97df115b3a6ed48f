"""Lines on disk: a torn end of every length, one writer at a time, and one refusal of what was made otherwise."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from specdec_cli.errors import TranscriptError
from specdec_cli.store import Store, _last_line, beside, made_otherwise
from specdec_cli.targets import TRANSCRIPTS
from tests.transcript.lines import append_transcript, read_transcripts
from tests.transcript.test_schema import failed

HEAD = b'{"schema":1,"file":"a"}\n'


def mend(path: Path) -> None:
    with Store(path, TRANSCRIPTS) as store:
        store.mend()


def test_a_line_torn_anywhere_is_cut_off_and_a_whole_one_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    lines = [failed(message).to_json().encode() + b"\n" for message in ("first", "zweite Zeile, 第二行")]
    for length in range(len(lines[1])):
        path.write_bytes(lines[0] + lines[1][:length])
        mend(path)
        kept = lines if length == len(lines[1]) - 1 else lines[:1]
        assert path.read_bytes() == b"".join(kept), length


def test_zeros_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(HEAD + bytes(200_000))
    mend(path)
    assert path.read_bytes() == HEAD


@pytest.mark.parametrize("end", [b"notes", b'{"a": 1', b'{"schema":2,"file"', b'{"file": "a.wav"}'])
def test_an_end_of_another_kind_is_left_alone(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(HEAD + end)
    with pytest.raises(TranscriptError, match="something else than transcripts"):
        mend(path)
    assert path.read_bytes() == HEAD + end


def test_a_file_that_needs_nothing_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(HEAD)
    before = path.stat()
    mend(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_the_last_line_is_found_across_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "o"
    for before in (b"", b"\n", b"x" * 70_000 + b"\n"):
        path.write_bytes(before + b"y" * size)
        descriptor = os.open(path, os.O_RDONLY)
        assert _last_line(descriptor) == (len(before), b"y" * size)
        os.close(descriptor)


def test_a_writer_waits_for_another_that_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    append_transcript(path, failed("first"))
    writer = threading.Thread(target=append_transcript, args=(path, failed("second")))
    with Store(path, TRANSCRIPTS):
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        assert len(list(read_transcripts(path))) == 1
    writer.join(10)
    assert len(list(read_transcripts(path))) == 2
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_it_is_held_by_whatever_name_and_its_own_files_have_short_ones(tmp_path: Path) -> None:
    path, link = tmp_path / ("n" * 254), tmp_path / "link"
    link.symlink_to(path)
    with Store(path, TRANSCRIPTS) as store:
        store.append(["{}"])
        assert beside(path, "lock").exists()
        with pytest.raises(TranscriptError, match="being written by another run"):
            Store(link, TRANSCRIPTS)
        store.compact([line.offset for line in store.lines()])
    assert sorted(os.listdir(tmp_path)) == ["link", path.name]


def test_what_was_made_otherwise_is_refused_in_one_wording() -> None:
    error = made_otherwise(Path("o.jsonl"), 3, [("k", 5, 3), ("edge.model", "a", None)])
    assert error.message == "o.jsonl:3 was made with other settings: k was 5 and is 3; edge.model was 'a' and is null."
    assert error.hint
