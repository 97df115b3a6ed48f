"""`metadata.jsonl`: the layout that `load_dataset("audiofolder", data_dir=...)` reads."""

import json
import os
from pathlib import Path

from specdec_cli.export.folder import Written
from specdec_cli.export.formats import export
from specdec_cli.export.recordings import Stored
from specdec_cli.targets import Targets
from specdec_cli.transcript import Transcript
from tests.batch.lines import good_line
from tests.transcript.lines import append_transcript


def exported(tmp_path: Path, folder: Path, *lines: Transcript) -> Written:
    for line in lines:
        append_transcript(tmp_path / "o.jsonl", line)
        if Path(line.file).is_relative_to(tmp_path) and "gone" not in line.file:
            Path(line.file).parent.mkdir(parents=True, exist_ok=True)
            Path(line.file).touch()
    return export(Stored.read(tmp_path / "o.jsonl"), ["audiofolder"], folder, Targets(), naming="speaker")


def rows(folder: Path) -> list[dict[str, str | None]]:
    return [json.loads(line) for line in (folder / "metadata.jsonl").read_text("utf-8").splitlines()]


def test_a_row_per_recording_with_its_name_in_the_folder(tmp_path):
    folder = tmp_path / "corpus"
    first = good_line(
        str(folder / "a.wav"), '=1, "so"', duration_s=1.0, speaker="0011", labels={"emotion": "happy", "pitch": None}
    )
    written = exported(
        tmp_path, folder, first, good_line(str(folder / "b/二 .flac"), "平静。", duration_s=2.0, text="a\nb")
    )
    assert (written.count, written.problems) == (1, [])
    assert rows(folder) == [
        {"file_name": "a.wav", "caption": '=1, "so"', "speaker": "0011", "text": None, "emotion": "happy"},
        {"file_name": "b/二 .flac", "caption": "平静。", "speaker": None, "text": "a b", "emotion": None},
    ]


def test_a_name_that_is_no_utf_8_is_left_out(tmp_path):
    folder = tmp_path / "corpus"
    odd = good_line(str(folder / os.fsdecode(b"\xff.wav")), duration_s=1.0)
    written = exported(tmp_path, folder, odd, good_line(str(folder / "a.wav"), duration_s=1.0))
    assert ([row["file_name"] for row in rows(folder)], len(written.problems)) == (["a.wav"], 1)


def test_what_it_cannot_hold_is_named(tmp_path):
    """A piece stands for no whole recording, and a name leads out of no folder."""
    folder = tmp_path / "corpus"
    parts = [
        good_line(str(folder / "long.wav"), str(at), start_s=at, end_s=at + 1, duration_s=1.0, recording_s=9.0)
        for at in (0, 1)
    ]
    begin = good_line(str(folder / "begin.wav"), start_s=0.0, end_s=1.0, duration_s=1.0, recording_s=9.0)
    outside = [good_line(str(tmp_path / name), duration_s=1.0) for name in ("corpus-2/x.wav", "y.wav")]
    parts.append(good_line(str(folder / "gone.wav"), duration_s=1.0))
    written = exported(tmp_path, folder, good_line(str(folder / "a.wav"), duration_s=1.0), *parts, begin, *outside)
    assert [row["file_name"] for row in rows(folder)] == ["a.wav"]
    (problem,) = written.problems
    assert "long.wav" in problem.message
    assert "begin.wav" in problem.message
    assert "gone.wav" in problem.message
    assert "and 2 more" in problem.message


def test_nothing_in_the_folder_makes_no_file_and_one_of_others_stays(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    written = exported(tmp_path, folder, good_line("/a.wav", duration_s=1.0))
    assert (written.count, len(written.problems), list(folder.iterdir())) == (0, 1, [])
    (folder / "metadata.jsonl").write_text('{"file_name": "mine"}\n')
    written = exported(tmp_path, folder, good_line(str(folder / "b.wav"), duration_s=1.0))
    assert (written.count, len(written.problems)) == (0, 2)
    assert (folder / "metadata.jsonl").read_text() == '{"file_name": "mine"}\n'
