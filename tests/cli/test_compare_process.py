"""`specdec compare` killed, interrupted, and on a terminal."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from specdec_cli.evaluate.result import Comparison
from tests.cli.harness import Fork, on_terminal
from tests.console.screens import COLOUR, ESCAPE
from tests.mini_pair import captioner, write_voice
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


@pytest.mark.full
def test_killed_again_and_again_it_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "t.jsonl"
    arguments = ["compare", str(folder), "--limit", "2", "-o", str(output), "--json", "--max-new-tokens", "12"]
    rng = random.Random(5)
    held = b""
    for count in (1, 3, 5):
        fork = Fork(arguments)
        wait_for_lines(output, count)
        time.sleep(rng.uniform(0, 0.02))
        fork.send(signal.SIGKILL)
        assert fork.wait().code == -signal.SIGKILL
        now = output.read_bytes()
        assert now.startswith(held)
        held = now[: now.rfind(b"\n") + 1]
    output.write_bytes(held + b'{"schema":1,"file":"half a li')  # what a kill may leave of a long line
    outcome = Fork(arguments).wait()
    assert outcome.code == 0, outcome.err
    assert output.read_bytes().startswith(held)
    runs = list(read_transcripts(output))
    done = [(run.file, run.mode) for run in runs]
    assert len(done) == len(set(done)) == 2 * len(MODES)
    for mode in MODES:
        alone = captioner(decoding__mode=mode, decoding__max_new_tokens=12)
        for run in (run for run in runs if run.mode == mode):
            assert run.caption == alone.caption(run.file).caption
    found = Comparison.model_validate_json(outcome.out)
    assert (len(found.clips), found.unfinished) == (2, 0)


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


@pytest.mark.parametrize("width", [60, 120])
def test_on_a_terminal_a_bar_is_drawn_and_taken_away(folder: Path, width: int) -> None:
    outcome, shown = on_terminal(["compare", str(folder), "--limit", "2", *SHORT, "--modes", "edge,cloud"], width=width)
    assert outcome.code == 0
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") > 0
    assert COLOUR.search(shown)
    assert "of 4" in shown
    page = ESCAPE.sub("", shown[shown.rindex("\x1b[?25h") :])
    assert "time of all clips" in page
    assert "█" not in page
    assert max(len(line.rstrip()) for line in page.replace("\r", "\n").split("\n")) <= width


def test_without_colour_nothing_is_coloured(folder: Path) -> None:
    _, shown = on_terminal(
        ["compare", str(folder), "--limit", "1", *SHORT, "--modes", "edge,cloud"], width=80, NO_COLOR="1"
    )
    assert not COLOUR.search(shown)
    assert "time of all clips" in shown


def test_a_reader_that_leaves_ends_it_quietly(folder: Path) -> None:
    for flags in (["--json"], []):
        reading, writing = os.pipe()
        os.close(reading)
        fork = Fork(
            ["compare", str(folder), "--limit", "1", *SHORT, "--modes", "edge,cloud", "-q", *flags], stdout=writing
        )
        os.close(writing)
        outcome = fork.wait()
        assert "Traceback" not in outcome.err
        assert outcome.code in (1, 141)
