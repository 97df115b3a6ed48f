"""`specdec compare` interrupted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.harness import Fork
from tests.mini_pair import write_voice
from tests.transcript.lines import read_transcripts

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
MODES = ("edge", "hybrid", "lossless", "cloud")
SHORT = ("--max-new-tokens", "8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings."""
    path = tmp_path_factory.mktemp("compared")
    for seed in range(4):
        write_voice(path / f"{seed}.wav", seed, 1.0)
    return path


def wait_for_lines(output: Path, count: int) -> None:
    deadline = time.monotonic() + 300
    while not output.exists() or output.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_interruption_shows_what_was_done_so_far(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "t.jsonl"
    fork = Fork(["compare", str(folder), "-o", str(output), "--repeat", "20", *SHORT])
    wait_for_lines(output, 9)
    fork.send(signal.SIGINT)
    outcome = fork.wait()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert "interrupted" in outcome.err
    done = Counter(run.file for run in {(run.file, run.mode): run for run in read_transcripts(output)}.values())
    assert outcome.out.startswith(f"{list(done.values()).count(len(MODES))} clips")
    assert "time of all clips" in outcome.out
    assert output.read_bytes().endswith(b"\n")
