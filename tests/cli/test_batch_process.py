"""A batch that is killed, interrupted, watched and large: real processes, signals and terminals."""

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.commands import say_what_is_opened
from tests.cli.harness import Fork, Outcome, telling
from tests.mini_pair import RATE, voice, write_voice
from tests.support.transcripts import read_transcripts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("batch"),  # what nobody interrupts is run once
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX"),
]
QUICK = (
    *("--mode", "edge", "--segment", "1", "--batch-size", "4"),
    *("--set", "decoding.max_new_tokens=4", "--set", "runtime.workers=2"),
)
CLIPS = 30


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """Recordings in two folders: most of them short, three cut into pieces, two broken."""
    folder = tmp_path_factory.mktemp("many")
    for half in ("a", "b"):
        (folder / half).mkdir()
    for index in range(CLIPS):
        path = folder / "ab"[index % 2] / f"{index // 2:02d}.wav"
        if index in (3, 20):
            path.write_bytes(b"RIFF" + bytes(40))
        elif index in (5, 14, 25):
            soundfile.write(path, voice(index, 2.5), RATE)
        else:
            write_voice(path, index, 0.2 + 0.02 * (index % 20))
    return folder


def arguments(folder: Path, output: Path) -> list[str]:
    return ["batch", str(folder), "-r", "-o", str(output), *QUICK]


def sorted_lines(output: Path) -> list[tuple[object, ...]]:
    return sorted((telling(line) for line in read_transcripts(output)), key=lambda line: str(line[:2]))


@pytest.fixture(scope="module")
def whole(many, tmp_path_factory) -> tuple[Outcome, Path]:
    """A run that nobody interrupts, and its output."""
    output = tmp_path_factory.mktemp("whole") / "out.jsonl"
    return Fork(arguments(many, output)).wait(), output


@pytest.fixture(scope="module")
def uninterrupted(whole) -> list[tuple[object, ...]]:
    outcome, output = whole
    assert outcome.code == 1, outcome.err
    lines = sorted_lines(output)
    assert len({line[0] for line in lines}) == CLIPS
    assert len(lines) == CLIPS + 6  # three of them in three pieces
    return lines


def test_a_batch_that_is_killed_again_and_again_ends_as_if_it_had_not_been(many, tmp_path, uninterrupted):
    """A real process; in `tests.captioning.test_outputs_machine` a run is killed at every line."""
    output, rng, died = tmp_path / "out.jsonl", np.random.default_rng(0), 0
    for point in sorted(rng.integers(0, CLIPS - 6, 3)):  # a third is left, or it might end before it is killed
        fork = Fork(arguments(many, output))
        fork.wait_for_lines(output, int(point))
        time.sleep(rng.uniform(0, 0.01))
        fork.send(signal.SIGKILL)
        died += fork.wait().code == -signal.SIGKILL
    assert died >= 2
    outcome = Fork(arguments(many, output)).wait()
    assert outcome.code == 1, outcome.err
    assert sorted_lines(output) == uninterrupted
    assert os.listdir(tmp_path) == [output.name]


def test_an_interruption_finishes_what_has_begun_and_says_how_to_go_on(many, tmp_path, uninterrupted):
    output = tmp_path / "out.jsonl"
    fork = Fork(arguments(many, output))
    fork.wait_for_lines(output, 3)
    fork.send(signal.SIGINT)
    outcome = fork.wait()
    assert outcome.code == 130, outcome.err
    assert "finishing what has begun" in outcome.err
    assert "Traceback" not in outcome.err
    done = sorted_lines(output)
    assert 3 <= len(done) < CLIPS
    assert set(map(str, done)) <= set(map(str, uninterrupted))
    hint = outcome.err.splitlines()[-1]
    assert hint.startswith("hint: Captions so far are kept")
    assert hint.endswith(f". To go on: specdec {' '.join(arguments(many, output))}")
    again = Fork(arguments(many, output)).wait()
    assert again.code == 1
    kept, all_pieces = (Counter(line[0] for line in lines if line[8] is None) for lines in (done, uninterrupted))
    assert f" {sum(kept[file] == all_pieces[file] for file in kept)} done before" in again.err
    assert sorted_lines(output) == uninterrupted


def test_a_second_interruption_stops_at_once(tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    (folder / "00 broken.wav").write_bytes(b"RIFF" + bytes(40))  # its line says that the batch has begun
    for index in range(12):
        write_voice(folder / f"{index:02d}.wav", index, 8.0)
    output = tmp_path / "out.jsonl"
    long = ("--set", "decoding.min_new_tokens=900", "--set", "decoding.max_new_tokens=1000")
    slow = ["batch", str(folder), "-o", str(output), *long]
    fork = Fork([*slow, "--mode", "edge", "--set", "decoding.loop_period=0", "--batch-size", "32"])
    fork.wait_for_lines(output, 1)
    fork.send(signal.SIGINT)
    fork.says("finishing what has begun")
    fork.send(signal.SIGINT)
    outcome = fork.wait()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert "To go on" not in outcome.err


def many_links(folder: Path, count: int) -> Path:
    folder.mkdir()
    first = write_voice(folder / "00000.wav", 1, 0.3)
    for index in range(1, count):
        os.link(first, folder / f"{index:05d}.wav")
    return folder


def test_of_five_thousand_files_the_first_are_captioned_before_others_are_opened(tmp_path):
    folder, output = many_links(tmp_path / "many", 5000), tmp_path / "out.jsonl"
    arguments = ["batch", str(folder), "-o", str(output), *QUICK, "--limit", "4000"]
    fork = Fork(arguments, command=say_what_is_opened)
    fork.wait_for_lines(output, 1)
    fork.send(signal.SIGINT)
    outcome = fork.wait()
    assert outcome.code == 130
    number = int(outcome.err.splitlines()[-1].removesuffix(" recordings opened"))
    assert len(list(read_transcripts(output))) <= number < 2500


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat(tmp_path):
    files = 600
    folder, output = many_links(tmp_path / "many", files), tmp_path / "out.jsonl"
    fork = Fork(["batch", str(folder), "-o", str(output), *QUICK])

    def resident(lines: int) -> int:
        fork.wait_for_lines(output, lines)
        return int(Path(f"/proc/{fork.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    early, late = resident(files // 6), resident(files - files // 6)
    assert fork.wait().code == 0
    assert 0 < late < 1.1 * early
