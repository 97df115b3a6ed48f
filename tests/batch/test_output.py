"""Who is in an output, what a crash leaves behind, and one run at a time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from specdec_cli.batch.output import Line, Output
from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.inputs.recording import Key
from specdec_cli.store import beside
from specdec_cli.transcript import Transcript
from tests.batch.lines import failed_line, good_line, write
from tests.transcript.lines import append_transcript, read_transcripts


def accept(_: Line) -> None:
    pass


def files(path: Path) -> list[str]:
    return [Path(transcript.file).name for transcript in read_transcripts(path)]


def test_it_knows_who_is_done_and_who_failed(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"), failed_line("/b.wav"), good_line("/c.wav", id="7"))
    with Output(path, accept) as output:
        assert len(output) == 3
        done = output.find(Key("/a.wav", None))
        assert done is not None
        assert (done.sha256, done.retry) == ("0" * 64, None)
        again = output.find(Key("/b.wav", None))
        assert again is not None
        assert again.retry is not None
        assert (again.retry.path, again.retry.language, again.retry.prompt) == ("/b.wav", "en", "Describe.")
        assert output.find(Key("/c.wav", None)) is None
        assert output.find(Key("/c.wav", "7")) is not None


def test_a_text_that_looks_like_rounds_is_no_end(tmp_path: Path) -> None:
    tricky = good_line("/a.wav", caption='x","rounds":[{"y":1}]', prompt='","rounds":[')
    path = write(tmp_path / "o.jsonl", tricky, good_line("/b\u2028.wav"))
    lines: list[Line] = []
    with Output(path, lines.append):
        assert [line.values["caption"] for line in lines] == [tricky.caption, "A calm voice."]
        assert lines[0].values["prompt"] == tricky.prompt


def test_new_lines_take_the_place_of_old_ones_when_it_is_closed(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", failed_line("/a.wav"), good_line("/b.wav"))
    path.chmod(0o640)
    with Output(path, accept) as output:
        output.append(Key("/a.wav", None), [good_line("/a.wav")])
        assert files(path) == ["a.wav", "b.wav", "a.wav"]
    assert files(path) == ["b.wav", "a.wav"]
    assert all(transcript.caption for transcript in read_transcripts(path))
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["o.jsonl"]


def test_what_a_killed_run_left_twice_is_there_once_after_the_next(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", failed_line("/a.wav"), good_line("/b.wav"), good_line("/a.wav", "Later."))
    with Output(path, accept):
        assert files(path) == ["b.wav", "a.wav"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real = write(tmp_path / "disk" / "real.jsonl", failed_line("/a.wav"))
    link = tmp_path / "o.jsonl"
    link.symlink_to(real)
    with Output(link, accept) as output:
        output.append(Key("/a.wav", None), [good_line("/a.wav")])
    assert link.is_symlink()
    assert files(real) == ["a.wav"]


@pytest.mark.parametrize("cut", [1, 2, 50, 400])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"), good_line("/b.wav"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with Output(path, accept) as output:
        kept = cut == 1  # the newline alone
        assert (output.find(Key("/b.wav", None)) is not None) == kept
        output.append(Key("/c.wav", None), [good_line("/c.wav")])
    assert files(path) == ["a.wav", *(["b.wav"] if kept else []), "c.wav"]


def test_a_line_that_is_torn_behind_a_brace_is_torn(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    line = good_line("/b.wav").to_json().encode()
    end = line.index(b'"resources":') - 2
    assert line[end : end + 1] == b"}"
    path.write_bytes(path.read_bytes() + line[: end + 1])
    with Output(path, accept):
        assert files(path) == ["a.wav"]


def test_a_torn_segment_takes_those_before_it_along(tmp_path: Path) -> None:
    segments = [good_line("/long.wav", start_s=float(n), end_s=n + 1.0) for n in range(3)]
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"), *segments)
    path.write_bytes(path.read_bytes()[:-30])
    with Output(path, accept) as output:
        assert output.find(Key("/long.wav", None)) is None
        assert files(path) == ["a.wav"]


def test_segments_belong_together_and_two_runs_over_them_do_not(tmp_path: Path) -> None:
    def segments(caption: str) -> list[Transcript]:
        return [good_line("/long.wav", caption, start_s=float(n), end_s=n + 1.0) for n in range(3)]

    path = write(tmp_path / "o.jsonl", *segments("first"), *segments("second"))
    with Output(path, accept):
        captions = [transcript.caption for transcript in read_transcripts(path)]
    assert captions == ["second"] * 3


@pytest.mark.parametrize("content", [b'{"threads": 2}', b"{}", b'{\n  "a": 1\n}', b"x"])
def test_a_file_of_another_kind_is_never_mended(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(TranscriptError):
        Output(path, accept)
    assert path.read_bytes() == content


def test_zeros_that_a_power_cut_left_are_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    path.write_bytes(path.read_bytes() + bytes(100))
    with Output(path, accept):
        assert files(path) == ["a.wav"]


def test_what_replaced_a_torn_recording_s_old_lines_gives_them_back(tmp_path: Path) -> None:
    old = failed_line("/long.wav")
    segments = [good_line("/long.wav", start_s=float(n), end_s=n + 1.0) for n in range(2)]
    path = write(tmp_path / "o.jsonl", old, *segments)
    path.write_bytes(path.read_bytes()[:-30])
    with Output(path, accept) as output:
        entry = output.find(Key("/long.wav", None))
        assert entry is not None
        assert entry.retry is not None
        assert list(read_transcripts(path)) == [old]


def test_one_bad_segment_makes_the_recording_one_to_retry(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.jsonl",
        good_line("/long.wav", start_s=0.0, end_s=1.0),
        failed_line("/long.wav", start_s=1.0),
    )
    with Output(path, accept) as output:
        entry = output.find(Key("/long.wav", None))
        assert entry is not None
        assert entry.retry is not None


def test_a_line_in_the_middle_that_is_none_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    path.write_bytes(path.read_bytes() + b'{"schema": 1, "fi\n' + path.read_bytes())
    before = path.read_bytes()
    with pytest.raises(TranscriptError, match=r"o\.jsonl:2 is no transcript"):
        Output(path, accept)
    assert path.read_bytes() == before


def test_a_refused_line_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    def refuse(line: Line) -> None:
        raise ConfigError(f"line {line.number}")

    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="line 1"):
        Output(path, refuse)
    assert path.read_bytes() == before
    with Output(path, accept):
        pass  # and not locked


def test_two_runs_never_write_one_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.jsonl"
    monkeypatch.setattr("specdec_cli.store.PATIENCE_S", 0.05)
    with Output(path, accept) as output:
        with pytest.raises(TranscriptError, match="being written by another run"):
            Output(path, accept)
        with pytest.raises(TranscriptError, match="being written by another run"):
            append_transcript(path, good_line("/x.wav"))
        output.append(Key("/a.wav", None), [good_line("/a.wav")])
    append_transcript(path, good_line("/x.wav"))
    assert files(path) == ["a.wav", "x.wav"]


def test_a_file_put_in_place_by_compaction_is_locked_too(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", failed_line("/a.wav"), good_line("/a.wav"))
    with Output(path, accept):
        assert files(path) == ["a.wav"]
        with pytest.raises(TranscriptError, match="another run"):
            Output(path, accept)


def test_overwriting_drops_what_was_there_when_it_is_told_to(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    with Output(path, None) as output:
        assert files(path) == ["a.wav"]
        output.clear()
        output.append(Key("/b.wav", None), [good_line("/b.wav")])
    assert files(path) == ["b.wav"]


def test_a_run_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    with Output(tmp_path / "o.jsonl", accept):
        pass
    assert os.listdir(tmp_path) == []
    (tmp_path / "mine.jsonl").touch()
    with Output(tmp_path / "mine.jsonl", accept):
        pass
    assert os.listdir(tmp_path) == ["mine.jsonl"]


def test_what_a_killed_compaction_left_is_cleared_away(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    mine = tmp_path / ".o.jsonl.new"
    mine.write_text("a person's")
    write(path, failed_line("/a.wav"), good_line("/a.wav"))
    beside(path, "new").write_text("half")
    with Output(path, accept):
        pass
    assert sorted(os.listdir(tmp_path)) == [mine.name, "o.jsonl"]
    assert mine.read_text() == "a person's"


BROKEN: dict[str, object] = {
    "models": [1], "settings": "k", "id": 5, "sha256": 1.5, "error": "broken", "file": "a\0b", "language": None
}  # fmt: skip


@pytest.mark.parametrize("field", BROKEN)
def test_a_line_with_wrong_types_is_named(tmp_path: Path, field: str) -> None:
    path = write(tmp_path / "o.jsonl", good_line("/a.wav"))
    values = json.loads(path.read_text())
    path.write_text(path.read_text() + json.dumps(values | {field: BROKEN[field]}) + "\n")
    with pytest.raises(TranscriptError, match=r"o\.jsonl:2 is no transcript"):
        Output(path, accept)


def test_deep_nesting_and_names_that_no_file_has_are_named(tmp_path: Path) -> None:
    for line in ('{"schema":1,"file":' + "[" * 100_000 + "}", '{"schema":1,"file":"\\ud800"}'):
        path = tmp_path / "o.jsonl"
        path.write_text(line + "\n")
        with pytest.raises(TranscriptError, match=r"o\.jsonl:1 is no transcript"):
            Output(path, accept)


def test_a_name_that_is_no_utf_8_is_found_again_however_it_was_written(tmp_path: Path) -> None:
    """As bytes in escapes now, and as text in 0.1: the same recording, to be opened by its own bytes."""
    name = os.fsencode(tmp_path) + "/说话人.wav".encode("gbk")
    now = failed_line(os.fsdecode(name))
    assert os.fsencode(json.loads(now.to_json())["file"]) == name
    former = now.model_copy(update={"file": os.fsdecode(name).encode("utf-8", "backslashreplace").decode()})
    Path(os.fsdecode(name)).write_bytes(b"-")
    for line in (now, former):
        path = write(tmp_path / "o.jsonl", line)
        with Output(path, accept) as output:
            entry = output.find(Key.of(os.fsdecode(name)))
            assert entry is not None
            assert entry.retry is not None
            assert os.fsencode(entry.retry.path) == name
