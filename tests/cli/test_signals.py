"""Signals at any moment: a command ends soon, with whole lines and a free output, and says why by its status."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from specdec_cli.cli import ending
from specdec_cli.targets import RECORDINGS, TRANSCRIPTS
from tests.cli.harness import Fork
from tests.mini_pair import write_voice
from tests.tiers import few
from tests.transcript.lines import Raw
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
QUICK = ("--set", "decoding.max_new_tokens=6", "-l", "en")
COMMANDS = {
    "batch": ("batch", *QUICK, "--batch-size", "4", "--set", "runtime.workers=2", "-o"),
    "caption": ("caption", *QUICK, "--segment", "1", "-o"),
    "tune": ("tune", *QUICK, "--gate", "entropy", "-k", "2", "--traces"),
    "compare": ("compare", *QUICK, "--mode", "edge,cloud", "-o"),
}
SIGNALS: dict[str, tuple[Sequence[int], int]] = {
    "terminated": ((signal.SIGTERM,), 143),
    "interrupted twice": ((signal.SIGINT, signal.SIGINT), 130),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for index in range(12):
        write_voice(folder / f"{index:02d}.wav", index, 0.3 + 0.05 * index)
    return folder


@pytest.fixture(scope="module")
def length_s(folder, tmp_path_factory) -> Callable[[str], float]:
    """How long a command takes that no signal ends."""
    known: dict[str, float] = {}

    def measured(command: str) -> float:
        if command not in known:
            output = tmp_path_factory.mktemp(command) / "out.jsonl"
            started = time.monotonic()
            assert Fork([*COMMANDS[command], str(output), str(folder)]).wait().code in (0, 1)
            known[command] = time.monotonic() - started
        return known[command]

    return measured


@pytest.mark.ci
@pytest.mark.parametrize("moments", [3, pytest.param(10, marks=pytest.mark.full)])
@pytest.mark.parametrize("signalled", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_moment_ends_the_command(folder, tmp_path, monkeypatch, length_s, command, signalled, moments):
    monkeypatch.setattr(ending, "_GRACE_S", 60.0)  # the machine may be busy
    rng = random.Random(f"{command} {signalled} {moments}")
    numbers, code = SIGNALS[signalled]
    for moment in range(moments):
        output = tmp_path / f"{moment}.jsonl"
        length = length_s(command)
        fork = Fork([*COMMANDS[command], str(output), str(folder)])
        fork.minds_signals()
        time.sleep(rng.uniform(0, length))
        for number in numbers:
            fork.send(number)
            time.sleep(rng.uniform(0, 0.05))
        started = time.monotonic()
        outcome = fork.wait()
        assert time.monotonic() - started < ending._GRACE_S, outcome.err
        # one that was through, or not yet begun, when the signal came ends as it would have
        assert outcome.code in (code, 0, 1, *(-number for number in numbers)), outcome.err
        assert "Traceback" not in outcome.err
        assert "did not end" not in outcome.err
        assert not list(tmp_path.glob(".specdec-*")), outcome.err
        if output.exists():
            assert output.read_bytes()[-1:] in (b"\n", b"")
        with Raw(output, RECORDINGS if command == "tune" else TRANSCRIPTS):
            pass


def hang() -> None:
    """A command that catches what ends it, and goes on."""
    with ending.signals():
        while True:
            with suppress(BaseException):
                print("here", file=sys.stderr, flush=True)  # from now on a signal is caught
                time.sleep(60)


@pytest.mark.parametrize("signalled", few(SIGNALS))
def test_what_does_not_end_is_ended_and_says_where_it_was(monkeypatch, signalled):
    numbers, code = SIGNALS[signalled]
    monkeypatch.setattr(ending, "_GRACE_S", 2.0)
    fork = Fork([], command=hang)
    for count, number in enumerate(numbers, 1):
        assert until(lambda so_often=count: fork._readers[2].so_far.count(b"here") >= so_often)
        fork.send(number)
    outcome = fork.wait()
    assert outcome.code == code
    assert "did not end within 2 s" in outcome.err
    assert "in hang" in outcome.err
