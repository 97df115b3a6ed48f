"""`specdec compare` killed, interrupted, and on a terminal."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.harness import Fork, on_terminal
from tests.console.screens import COLOUR, ESCAPE
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


def test_on_a_terminal_a_bar_is_drawn_and_taken_away(folder: Path) -> None:
    width = 60
    outcome, shown = on_terminal(["compare", str(folder), "--limit", "2", *SHORT, "--modes", "edge,cloud"], width=width)
    assert outcome.code == 0
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") > 0
    assert COLOUR.search(shown)
    assert "of 4" in shown
    page = ESCAPE.sub("", shown[shown.rindex("\x1b[?25h") :])
    assert "time of all clips" in page
    assert "█" not in page
    assert max(len(line.rstrip()) for line in page.replace("\r", "\n").split("\n")) <= width
