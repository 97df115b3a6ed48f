"""What `specdec batch` leaves alone, names that are no text or too long, and recordings that kill a process."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.batch import begun
from specdec_cli.batch.local import Preparer
from specdec_cli.captioner import Captioner
from specdec_cli.export.folder import INDEX
from specdec_cli.inputs.recording import InputFile
from specdec_cli.lexicon import Lexicon
from specdec_cli.store import beside
from tests.batch.lines import good_line
from tests.cli.conftest import Specdec
from tests.cli.harness import Fork, Outcome
from tests.mini_pair import write_voice
from tests.transcript.lines import read_transcripts

QUICK = ("--mode", "edge", "--max-new-tokens", "4")
Batch = Callable[..., Outcome]


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """A folder with two recordings and one in a folder inside it."""
    folder = tmp_path / "d"
    for seed, name in enumerate(("a.wav", "b.wav", "deep/c.wav")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_voice(folder / name, seed, 0.4)
    return folder


@pytest.fixture
def batch(specdec: Specdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batch:
    """Run `specdec batch ARGUMENTS` quickly, in the temporary folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: specdec("batch", *arguments, *QUICK)


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("d", "-o", "o.jsonl", "--csv", "d/a.wav"), "d/a.wav"),
        (("--manifest", "m.csv", "-o", "o.jsonl", "--csv", "m.csv"), "m.csv"),
        (("--manifest", "m.jsonl", "-o", "m.jsonl", "--overwrite"), "m.jsonl"),
        (("--manifest", "own.jsonl", "-o", "own.jsonl", "--overwrite"), "own.jsonl"),
        (("d", "-o", "settings.json", "--overwrite"), "settings.json"),
        (("d", "-o", "o.jsonl", "--labels", "--lexicon", "lexicon.yaml", "--csv", "lexicon.yaml"), "lexicon.yaml"),
        (("d", "-o", "o.jsonl", "--csv", "t.csv"), "t.csv"),
        (("d", "-o", "d/b.wav", "--overwrite"), "d/b.wav"),
    ],
)
def test_inputs_and_files_of_others_are_refused_before_loading(
    batch: Batch, clips: Path, tmp_path: Path, arguments: tuple[str, ...], kept: str, unloaded: None
) -> None:
    (tmp_path / "m.csv").write_text("file\nd/a.wav\n")
    (tmp_path / "m.jsonl").write_text('{"file": "d/a.wav"}\n')
    (tmp_path / "own.jsonl").write_text(good_line(clips / "a.wav").to_json() + "\n")
    (tmp_path / "settings.json").write_text('{"threads": 2}')
    (tmp_path / "lexicon.yaml").write_text("extends: default\n")
    (tmp_path / "t.csv").write_text(
        "name,id,file,start_s,end_s,duration_s,language,caption,finish_reason,error\n1.wav,,/data/1.wav,,,,en,A,eos,\n"
    )
    before = (tmp_path / kept).read_bytes()
    outcome = batch(*arguments)
    assert outcome.code in (1, 2)
    assert outcome.err.count("error: ") == 1
    assert "hint: " in outcome.err
    assert (tmp_path / kept).read_bytes() == before
    assert not (tmp_path / "o.jsonl").exists()


def test_what_leads_nowhere_is_refused_before_loading(
    batch: Batch, clips: Path, tmp_path: Path, unloaded: None
) -> None:
    (tmp_path / "notes.wav").write_text("not a recording")
    (tmp_path / "m.csv").write_text("file\nd/none.wav\n")
    for arguments, said in (
        (("d", "d/mistyped.wav"), "There is nothing at 'd/mistyped.wav'"),
        (("nothing*.wav",), "There is nothing at 'nothing*.wav'"),
        (("notes.wav",), "notes.wav"),
        (("--manifest", "m.csv"), "Paths in m.csv are relative to its own folder"),
    ):
        outcome = batch(*arguments, "-o", "o.jsonl")
        assert outcome.code in (1, 2)
        assert said in outcome.err
        assert not (tmp_path / "o.jsonl").exists()


def test_text_files_of_others_are_left_alone_and_told(batch: Batch, clips: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.wav.txt").write_bytes("笔记".encode("gbk"))
    outcome = batch("d", "-o", "o.jsonl", "--export", "txt", "--export-dir", "texts")
    assert outcome.code == 3
    assert "a.wav.txt was left as it is" in outcome.err
    assert (texts / "a.wav.txt").read_bytes() == "笔记".encode("gbk")
    captions = {Path(line.file).name: line.caption for line in read_transcripts(tmp_path / "o.jsonl")}
    assert (texts / "b.wav.txt").read_text("utf-8") == f"{captions['b.wav']}\n"
    write_voice(clips / "b.wav", 9, 0.6)  # its own are brought up to date, until somebody edits them
    (texts / "a.wav.txt").unlink()
    assert batch("d", "-o", "o.jsonl", "--export", "txt", "--export-dir", "texts").code == 0
    captions = {Path(line.file).name: line.caption for line in read_transcripts(tmp_path / "o.jsonl")}
    assert (texts / "b.wav.txt").read_text("utf-8") == f"{captions['b.wav']}\n"
    (texts / "b.wav.txt").write_text("edited")
    assert batch("d", "-o", "o.jsonl", "--export", "txt", "--export-dir", "texts").code == 3
    assert (texts / "b.wav.txt").read_text() == "edited"


def test_a_table_goes_to_stdout_and_its_folders_are_told(batch: Batch, clips: Path, tmp_path: Path) -> None:
    outcome = batch("d", "-o", "o.jsonl", "--csv", "-", "--labels")
    assert outcome.code == 0
    rows = list(csv.DictReader(outcome.out.splitlines()))
    assert [row["name"] for row in rows] == ["a.wav", "b.wav"]  # in the order of the input
    assert {f"label_{attribute}" for attribute in Lexicon.load().attributes} <= rows[0].keys()
    labels = {Path(line.file).name: line.labels or {} for line in read_transcripts(tmp_path / "o.jsonl")}
    assert all(row["label_emotion"] == (labels[row["name"]]["emotion"] or "") for row in rows)
    assert not (tmp_path / "-").exists()
    assert "not searched (1); --recursive" in outcome.err


def test_the_table_is_in_the_order_of_the_input_and_holds_no_formulas(
    batch: Batch, clips: Path, tmp_path: Path
) -> None:
    shutil.copy(clips / "a.wav", clips / "=cmd.wav")
    (tmp_path / "m.csv").write_text("file,id\nd/b.wav,+1\nd/=cmd.wav,@x\nd/a.wav,'=y\n")
    for _ in range(2):  # the second run finds its own table
        assert batch("--manifest", "m.csv", "-o", "o.jsonl", "--csv", "t.csv", "--batch-size", "1").code == 0
        with (tmp_path / "t.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["id"] for row in rows] == ["'+1", "'@x", "''=y"]
        assert rows[1]["name"] == "'=cmd.wav"


def test_names_in_gbk_are_captioned_copied_and_retried(batch: Batch, clips: Path, tmp_path: Path) -> None:
    name = "说话人.wav".encode("gbk")
    folder = os.fsencode(clips)
    os.rename(clips / "a.wav", folder + b"/" + name)
    (clips / "b.wav").unlink()
    assert batch("d", "-o", "o.jsonl", "--csv", "t.csv", "--export", "txt", "--export-dir", "texts").code == 0
    (text,) = (tmp_path / "o.jsonl").read_text("utf-8").splitlines()
    assert os.fsencode(json.loads(text)["file"]) == b"d/" + name
    shutil.copy(folder + b"/" + name, clips / "copy.wav")
    assert "1 captioned  1 done before" in batch("d", "-o", "o.jsonl", "--csv", "t.csv").err
    whole = Path(os.fsdecode(folder + b"/" + name)).read_bytes()
    Path(os.fsdecode(folder + b"/" + name)).write_bytes(whole[:60])
    assert batch("d", "-o", "o.jsonl").code == 3
    Path(os.fsdecode(folder + b"/" + name)).write_bytes(whole)
    outcome = batch("--retry-failed", "-o", "o.jsonl")
    assert (outcome.code, "1 captioned" in outcome.err) == (0, True)


def test_a_name_of_254_bytes_stops_no_other_text(batch: Batch, clips: Path, tmp_path: Path) -> None:
    for letter in "xy":
        shutil.copy(clips / "a.wav", clips / ("说" * 83 + letter + ".wav"))
    assert batch("d", "-o", "o.jsonl", "--export", "txt", "--export-dir", "texts").code == 0
    texts = [path.name for path in (tmp_path / "texts").glob("*.txt")]
    assert len(texts) == 4
    assert all(len(os.fsencode(text)) <= 255 for text in texts)
    assert set(json.loads((tmp_path / "texts" / INDEX).read_text())["files"]) == set(texts)


def test_what_killed_a_run_is_recorded_by_the_next_and_does_not_kill_it(
    batch: Batch, clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(self: Captioner, item: InputFile) -> object:
        if item.path.endswith("b.wav"):
            os.kill(os.getpid(), signal.SIGKILL)
        return decode(self, item)

    decode = Captioner.recording
    monkeypatch.setattr(Captioner, "recording", deadly)
    fork = Fork(["batch", "d", "-o", "o.jsonl", *QUICK, "--workers", "1"])
    assert fork.wait().code == -signal.SIGKILL
    assert json.loads(beside(tmp_path / "o.jsonl", "begun").read_text()) == ["d/b.wav"]
    monkeypatch.setattr(begun, "_DECODE", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    for _ in range(2):  # nor does it kill the one after
        assert batch("d", "-o", "o.jsonl").code == 3
        lines = {Path(line.file).name: line for line in read_transcripts(tmp_path / "o.jsonl")}
        assert lines["a.wav"].caption
        assert lines["b.wav"].error is not None
        assert "ends the process that decodes it (signal 9)" in lines["b.wav"].error.message
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)


def test_a_suspect_that_does_no_harm_is_captioned(tmp_path: Path) -> None:
    from specdec_cli.batch.tasks import Task
    from specdec_cli.inputs.recording import InputFile
    from tests.mini_pair import captioner

    file = str(write_voice(tmp_path / "a.wav", 1, 0.4))
    with begun.Note(tmp_path / "o.jsonl", [file]) as note:
        (ready,) = Preparer(captioner(decoding__mode="edge"), note)(Task(InputFile(file)))
        assert type(ready).__name__ == "Prepared"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_everything_is_done_without_loading(
    batch: Batch, clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clips / "b.wav").write_bytes(b"RIFF")
    assert batch("d", "-o", "o.jsonl").code == 3
    before = (tmp_path / "o.jsonl").read_bytes()
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
    outcome = batch("d", "-o", "o.jsonl")
    assert outcome.code == 3
    assert "1 done before" in outcome.err
    assert "1 failed" in outcome.err
    (clips / "b.wav").unlink()
    assert batch("d", "-o", "o.jsonl").code == 0
    assert (tmp_path / "o.jsonl").read_bytes() == before


def test_folders_fifteen_hundred_deep_are_captioned_and_exported(batch: Batch, tmp_path: Path) -> None:
    at = "d"
    os.mkdir(at)
    for _ in range(1499):
        os.chdir(at)
        os.mkdir(at)
    write_voice(Path("d/x.wav"), 1, 0.4)
    os.chdir(tmp_path)
    try:
        outcome = batch("d", "-r", "-o", "o.jsonl", "--export", "txt", "--export-dir", "t", "--csv", "t.csv")
        assert (outcome.code, "RecursionError" in outcome.err) == (0, False)
        assert "1 captioned" in outcome.err
    finally:
        subprocess.run(["rm", "-rf", "d", "t"], check=True, cwd=tmp_path)  # shutil and pytest would recurse
