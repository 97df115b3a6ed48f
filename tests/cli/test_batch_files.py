"""What `specdec batch` leaves alone, names that are no text or too long, and recordings that lie."""

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from tests.cli.conftest import Specdec
from tests.cli.harness import Outcome
from tests.mini_pair import write_voice

QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=4")
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


def test_where_nothing_can_be_opened_nothing_is_loaded(
    batch: Batch, clips: Path, tmp_path: Path, unloaded: None
) -> None:
    (tmp_path / "notes.wav").write_text("not a recording")
    (tmp_path / "m.csv").write_text("file\nd/none.wav\n")
    for arguments, said in (
        (("d/mistyped.wav",), "d/mistyped.wav does not exist."),
        (("nothing*.wav",), "nothing*.wav matches no file."),
        (("notes.wav",), "notes.wav"),
        (("--manifest", "m.csv"), "d/none.wav does not exist."),
    ):
        outcome = batch(*arguments, "-o", "o.jsonl")
        assert outcome.code == (1 if said == "notes.wav" else 2)  # what is there and no recording, or a wrong name
        assert "--retry-failed" not in outcome.err
        assert said in outcome.err
        assert not (tmp_path / "o.jsonl").exists()


def test_the_table_is_in_the_order_of_the_input_and_holds_no_formulas(
    batch: Batch, clips: Path, tmp_path: Path
) -> None:
    shutil.copy(clips / "a.wav", clips / "=cmd.wav")
    (tmp_path / "m.csv").write_text("file,id\nd/b.wav,+1\nd/=cmd.wav,@x\nd/a.wav,'=y\n")
    for _ in range(2):  # the second run finds its own table
        assert batch("--manifest", "m.csv", "-o", "o.jsonl", "--export", "csv", "--batch-size", "1").code == 0
        with (tmp_path / "o-export" / "o.csv").open(encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        assert [row["id"] for row in rows] == ["'+1", "'@x", "''=y"]
        assert rows[1]["name"] == "'=cmd.wav"


def test_names_in_gbk_are_captioned_copied_and_retried(batch: Batch, clips: Path, tmp_path: Path) -> None:
    name = "说话人.wav".encode("gbk")
    folder = os.fsencode(clips)
    os.rename(clips / "a.wav", folder + b"/" + name)
    (clips / "b.wav").unlink()
    assert batch("d", "-o", "o.jsonl", "--export", "csv,txt", "--export-dir", "texts").code == 0
    (text,) = (tmp_path / "o.jsonl").read_text("utf-8").splitlines()
    assert os.fsencode(json.loads(text)["file"]) == b"d/" + name
    assert "0 captioned  1 done before" in batch("d", "-o", "o.jsonl", "--export", "csv").err
    whole = Path(os.fsdecode(folder + b"/" + name)).read_bytes()
    Path(os.fsdecode(folder + b"/" + name)).write_bytes(whole[:60])
    assert batch("d", "-o", "o.jsonl").code == 1
    Path(os.fsdecode(folder + b"/" + name)).write_bytes(whole)
    outcome = batch("--retry-failed", "-o", "o.jsonl")
    assert (outcome.code, "1 captioned" in outcome.err) == (0, True)


def test_everything_is_done_without_loading(
    batch: Batch, clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clips / "b.wav").write_bytes(b"RIFF")
    assert batch("d", "-o", "o.jsonl").code == 1
    before = (tmp_path / "o.jsonl").read_bytes()
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
    outcome = batch("d", "-o", "o.jsonl")
    assert outcome.code == 1
    assert "1 done before" in outcome.err
    assert "1 failed" in outcome.err
    (clips / "b.wav").unlink()
    assert batch("d", "-o", "o.jsonl").code == 0
    assert (tmp_path / "o.jsonl").read_bytes() == before
