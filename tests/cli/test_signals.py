"""Signals at any moment: a command ends soon, with whole files and a free output, and says why by its status."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle
from pathlib import Path

import pytest

from specdec_cli import interrupts
from specdec_cli.cli import ending
from specdec_cli.targets import RECORDINGS, TRANSCRIPTS
from tests.cli.commands import hang, patient, wait_for_stdin, write_for_long
from tests.cli.harness import COMMAND, Fork, environment
from tests.mini_pair import write_voice
from tests.support.transcripts import Raw, piece
from tests.tiers import few
from tests.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
MOMENTS = int(os.environ.get("SPECDEC_MOMENTS", "3"))
"""Moments at which each command gets a signal."""
QUICK = ("--set", "decoding.max_new_tokens=6", "-l", "en")
COMMANDS: dict[str, Sequence[str]] = {
    "batch": ("batch", "clips", *QUICK, "--batch-size", "4", "--set", "runtime.workers=2", "-o", "out/o.jsonl"),
    "batch and exports": ("batch", "one", *QUICK, "-o", "out/o.jsonl", "--export", "csv,srt,textgrid"),
    "caption": ("caption", "clips", *QUICK, "--segment", "1", "-o", "out/o.jsonl"),
    "tune": ("tune", "clips", *QUICK, "--gate", "entropy", "-k", "2", "--traces", "out/o.jsonl"),
    "compare": ("compare", "clips", *QUICK, "--mode", "edge,cloud", "-o", "out/o.jsonl", "-o", "out/p.html"),
    "export": ("export", "many.jsonl", "--to", "csv,srt,textgrid", "-o", "out"),
    "review": ("review", "captions.jsonl", "-o", "out/r.html"),
    "serve": ("serve", "--port", "0", "--mode", "edge"),
}
SIGNALS: dict[str, tuple[Sequence[int], int]] = {
    "terminated": ((signal.SIGTERM,), 143),
    "interrupted": ((signal.SIGINT,), 130),
    "interrupted twice": ((signal.SIGINT, signal.SIGINT), 130),
}


@dataclass(frozen=True, slots=True)
class Whole:
    """A run that no signal ends."""

    length_s: float
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    for name, count in (("clips", 12), ("one", 1)):
        (folder / name).mkdir()
        for index in range(count):
            write_voice(folder / name / f"{index:02d}.wav", index, 0.3 + 0.05 * index)
    lines = [piece(0, 1, file=f"/data/{number}.wav", labels={"emotion": "happy"}) for number in range(300)]
    (folder / "many.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    clips = sorted((folder / "clips").iterdir())
    own = [piece(None, None, file=str(clip), sha256=sha256(clip.read_bytes()).hexdigest()) for clip in clips]
    (folder / "captions.jsonl").write_text("".join(f"{line}\n" for line in own), "utf-8")
    return folder


def begun(folder: Path, tmp_path: Path, command: str) -> Fork:
    """The command, in a folder of its own that holds what the scene does."""
    tmp_path.mkdir(parents=True)
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "out").mkdir()
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    return Fork(COMMANDS[command], folder=tmp_path, variables=state, command=patient)


def files(tmp_path: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def run_to_its_end(command: str, folder: Path, tmp_path: Path) -> Whole:
    fork, started = begun(folder, tmp_path / "whole", command), time.monotonic()
    if command == "serve":
        fork.says('"ready"')
        fork.send(signal.SIGTERM)
    outcome = fork.wait()
    assert outcome.code == (143 if command == "serve" else 0), outcome.err
    return Whole(time.monotonic() - started, files(tmp_path / "whole" / "out"))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_moment_ends_the_command(folder, tmp_path, command):
    undisturbed, rng, ended_by_it = run_to_its_end(command, folder, tmp_path), random.Random(command), 0
    for moment, (numbers, code) in zip(range(MOMENTS), cycle(SIGNALS.values())):
        place = tmp_path / str(moment)
        fork = begun(folder, place, command)
        fork.minds_signals()
        time.sleep(rng.uniform(0, undisturbed.length_s * (moment + 1) / MOMENTS))  # a warm run is shorter
        for number in numbers:
            fork.send(number)
            time.sleep(rng.uniform(0, 0.05))
        outcome = fork.wait()
        ended_by_it += outcome.code == code
        assert "Traceback" not in outcome.err
        assert "did not end" not in outcome.err
        written = files(place / "out")
        assert not [name for name in written if ".specdec-" in name]
        if outcome.code in (0, *(-number for number in numbers)):  # it was through when the signal came
            assert written.keys() == undisturbed.files.keys()
        else:
            assert outcome.code == code, outcome.err
        for name, content in written.items():
            if name == "o.jsonl":
                assert content.endswith(b"\n")
                with Raw(place / "out" / name, RECORDINGS if command == "tune" else TRANSCRIPTS):
                    pass
            elif command in ("export", "review"):
                assert content == undisturbed.files[name]
    assert ended_by_it or command in ("export", "review")  # which take a moment


@pytest.mark.slow
@pytest.mark.parametrize("command", ["batch", "serve"])
def test_a_signal_while_the_models_are_loaded_ends_the_command(folder, tmp_path, command):
    """In a process of its own, which imports PyTorch and loads the pair."""
    rng = random.Random(command)
    for moment in range(MOMENTS):
        number = (signal.SIGTERM, signal.SIGINT)[moment % 2]
        place = tmp_path / str(moment)
        (place / "out").mkdir(parents=True)
        (place / "clips").symlink_to(folder / "clips")
        with (place / "err").open("wb") as err:
            started = subprocess.Popen(
                [*COMMAND, *COMMANDS[command]], cwd=place, env=environment(), stderr=err, stdout=err
            )
        assert until(lambda log=place / "err": b"loading" in log.read_bytes(), 600)
        time.sleep(rng.uniform(0, 4))
        started.send_signal(number)
        code, said = started.wait(timeout=120), (place / "err").read_text()
        assert code == 128 + number or (code in (0, -number) and "captions are in" in said), said
        assert "Traceback" not in said


def test_nothing_is_raised_where_a_signal_arrives_and_the_command_ends_where_it_looks(monkeypatch):
    monkeypatch.setattr(ending._thread, "start_new_thread", lambda *_: None)
    monkeypatch.setattr(ending.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    monkeypatch.setattr(ending, "_seen", set())
    for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)):
        ending.handle(number, None)
        assert interrupts.asked()
        with pytest.raises(error):
            interrupts.check()
        interrupts.check()  # once
    with ending.interruptible(lambda: None) as block:
        ending.handle(signal.SIGINT, None)
        assert (block.check(), interrupts.asked()) == (True, False)
        ending.handle(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            block.check()


@pytest.mark.parametrize("signalled", few(["interrupted", "terminated"]))
def test_a_command_that_waits_for_its_input_ends(signalled):
    (number,), code = SIGNALS[signalled]
    fork = Fork(["caption", "-"], command=wait_for_stdin)
    fork.minds_signals()
    fork.send(number)
    outcome = fork.wait()
    assert (outcome.code, "did not end" in outcome.err) == (code, False)


def test_a_closed_terminal_ends_the_command():
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        pytest.skip("of nohup, under which no command minds it")
    fork = Fork([], command=hang)
    fork.says("here")
    fork.send(signal.SIGHUP)
    assert fork.wait().code in (-signal.SIGHUP, 129)  # a shell calls both 129


@pytest.mark.parametrize("signalled", few(SIGNALS))
def test_what_does_not_end_is_ended_and_says_where_it_was(signalled):
    numbers, code = SIGNALS[signalled]
    fork = Fork([], command=hang)
    fork.says("here")
    for number in numbers:
        fork.send(number)
        time.sleep(0.1)
    outcome = fork.wait()
    assert outcome.code == code
    assert re.search(r"did not end within [12] s", outcome.err)
    assert "in hang" in outcome.err


def test_no_file_is_half_written_when_a_command_is_ended(tmp_path):
    fork = Fork([], command=write_for_long, folder=tmp_path)
    fork.says("here")
    fork.send(signal.SIGTERM)
    outcome = fork.wait()
    assert (outcome.code, outcome.out) in ((143, "written whole"), (0, "written whole"))
