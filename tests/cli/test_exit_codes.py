"""The table of exit codes, row by row, through the real command."""

import os
import signal
from pathlib import Path

import pytest

from specdec_cli.cli.app import EXIT_CODES
from tests.cli.conftest import Specdec
from tests.cli.harness import Fork, process
from tests.export.lines import piece
from tests.mini_pair import write_voice

ENDED = [
    (0, "config show"),
    (0, "caption a.wav --mode edge --set decoding.max_new_tokens=2"),
    (1, "caption broken.wav a.wav --mode edge --set decoding.max_new_tokens=2"),
    (1, "export two.jsonl --to srt,csv -o taken"),  # one of several files is somebody else's
    (2, "caption a.wav -k 0"),
    (2, "caption a.wav --nothing"),
    (2, "caption missing.wav"),
    (2, "export missing.jsonl --to csv"),
    (2, "batch --manifest missing.tsv -o o.jsonl"),
    (2, "caption a.wav -c missing.yaml"),
    (2, "caption a.wav -o notes.jsonl"),  # which specdec did not write
]
UNUSABLE = [  # a model, and a server
    "caption a.wav --edge ./nothing --mode edge",
    "caption a.wav --mode cloud --set cloud.url=http://127.0.0.1:9 --set cloud.processor=package:mini/edge",
]
SIGNALLED = {130: (signal.SIGINT, signal.SIGINT), 143: (signal.SIGTERM,)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording, one that is broken, transcripts, and files of somebody else."""
    write_voice(tmp_path / "a.wav", 1, 0.5)
    (tmp_path / "broken.wav").write_bytes(b"no sound")
    (tmp_path / "two.jsonl").write_text(f"{piece(0, 2)}\n", encoding="utf-8")
    (tmp_path / "notes.jsonl").write_text("my notes", encoding="utf-8")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "two.csv").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("code", "line"), ENDED, ids=[line for _, line in ENDED])
def test_a_command_ends_as_the_table_says(specdec: Specdec, folder: Path, code: int, line: str) -> None:
    outcome = specdec(*line.split())
    assert outcome.code == code, outcome.err
    assert ("error: " in outcome.err) == (code > 0)


@pytest.mark.ci
@pytest.mark.parametrize("line", UNUSABLE)
def test_a_model_or_a_server_that_cannot_be_used_is_3(folder: Path, line: str) -> None:
    outcome = process(*line.split())
    assert outcome.code == 3, outcome.err


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("code", SIGNALLED)
def test_a_signal_ends_a_command_as_the_table_says(folder: Path, code: int) -> None:
    write_voice(folder / "long.wav", 2, 20.0)
    fork = Fork(["caption", *[str(folder / "long.wav")] * 20, "--segment", "1", "-o", str(folder / "o.jsonl")])
    fork.wait_for_lines(folder / "o.jsonl", 1)
    for number in SIGNALLED[code]:
        fork.send(number)
    assert fork.wait().code == code


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_reader_that_has_gone_ends_a_command_as_the_table_says(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    fork = Fork(["config", "show"], stdout=writing)
    os.close(writing)
    assert fork.wait().code == 141


def test_every_row_is_tried() -> None:
    assert {code for code, _ in ENDED} | SIGNALLED.keys() | {3, 141} == EXIT_CODES.keys()
