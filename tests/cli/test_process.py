"""Real pipes, signals and terminals."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from specdec_cli.transcript import Transcript
from tests.cli.harness import Fork, environment, on_terminal, process
from tests.console.screens import COLOUR, ESCAPE
from tests.mini_pair import write_voice
from tests.support.transcripts import piece, read_transcripts
from tests.tiers import few

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
FILES = 60


@pytest.mark.slow
def test_a_process_of_its_own_captions_with_the_shipped_models(recordings):
    outcome = process("caption", recordings[0], recordings[1], "--json", OMP_DISPLAY_ENV="true")
    assert outcome.code == 0, outcome.err
    transcripts = [Transcript.model_validate_json(line) for line in outcome.lines]
    assert [t.file for t in transcripts] == recordings[:2]
    assert transcripts[0].timing.load_s
    assert transcripts[0].models.edge
    assert transcripts[0].models.edge.name == "package:mini/edge"
    assert re.search(r"^loading edge: .*^loading cloud: ", outcome.err, re.MULTILINE | re.DOTALL)
    assert "Warning" not in outcome.err
    # A thread that spins beside a busy process makes a clip take twenty times as long.
    assert "OMP_WAIT_POLICY" not in outcome.err or "OMP_WAIT_POLICY = 'PASSIVE'" in outcome.err


@pytest.mark.parametrize(
    "command", few([["caption"], ["config", "show"], ["batch", "--help"], ["export", "-o", "-", "--to", "csv"]], 2)
)
def test_a_reader_that_leaves_ends_the_run_quietly(recordings, tmp_path, command):
    reading, writing = os.pipe()
    os.close(reading)
    (tmp_path / "t.jsonl").write_text(f"{piece(0, 2)}\n", "utf-8")
    more = {"caption": recordings, "export": [str(tmp_path / "t.jsonl")]}.get(command[0], [])
    fork = Fork([*command, *more], stdout=writing)
    os.close(writing)
    outcome = fork.wait()
    assert outcome.code == 141
    assert "Traceback" not in outcome.err
    assert "Error" not in outcome.err


@pytest.mark.parametrize(
    ("command", "code", "closed"),
    few(
        [
            ("caption missing", 2, (0,)),
            ("caption -", 2, (0,)),
            ("caption missing", 2, (1, 2)),
            ("config show", 2, (1,)),
        ],
        2,
    ),
)
def test_closed_streams_are_no_accident(command, code, closed):
    outcome = Fork(command.split(), closed=closed).wait()
    assert outcome.code == code, outcome.err
    assert "Traceback" not in outcome.err


def test_a_file_never_takes_the_place_of_a_closed_stream():
    code = "import os; from specdec_cli.cli import process; process._open_standard_streams(); os._exit(os.open('/', 0))"
    done = subprocess.run(["sh", "-c", f'{sys.executable} -c "{code}" <&- >&- 2>&-'], env=environment())
    assert done.returncode >= 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_stdout_without_room_is_one_error(recordings):
    full = os.open("/dev/full", os.O_WRONLY)
    outcome = Fork(["caption", "-q", *recordings], stdout=full).wait()
    os.close(full)
    assert outcome.code == 3
    assert "Traceback" not in outcome.err
    assert outcome.err.count("error: ") == 1
    assert "No space left" in outcome.err


def copies(recordings: list[str], folder: Path) -> list[str]:
    """Enough recordings for a run that lasts: one that is named twice is captioned once."""
    names = [(file, str(folder / f"{number} {Path(file).name}")) for number in range(FILES) for file in recordings]
    return [shutil.copy(file, name) for file, name in names]


@pytest.mark.parametrize(("number", "code"), few([(signal.SIGTERM, 143), (signal.SIGINT, 130)]))
def test_a_signal_keeps_whole_lines_and_gives_the_terminal_back(recordings, tmp_path, number, code):
    """Stdout is a pipe, which gets the captions, and the terminal shows the run."""
    output, files = tmp_path / "out.jsonl", copies(recordings, tmp_path)

    def end(fork: Fork) -> None:
        fork.wait_for_lines(output, 3)
        fork.send(number)

    asked = ["caption", "-o", str(output), *files]
    outcome, shown = on_terminal(asked, width=200, piped=True, meanwhile=end)
    assert outcome.code == code
    assert "Traceback" not in shown
    assert shown.rindex(SHOW) > shown.rindex(HIDE)
    transcripts = list(read_transcripts(output))
    assert 3 <= len(transcripts) < len(files)
    assert output.read_bytes().endswith(b"\n")
    assert all(t.caption for t in transcripts)
    assert 0 <= len(outcome.lines) - len(transcripts) <= 1
    assert "\x1b" not in outcome.out
    after = ESCAPE.sub("", shown[shown.rindex(SHOW) :])
    counted = re.search(r"(\d+) captioned.*\n.*captions are in\s", after)
    assert counted, after
    assert ("interrupted" in after) == (number == signal.SIGINT)
    assert 0 <= len(transcripts) - int(counted[1]) <= 1


def test_on_a_terminal_the_run_is_shown_live_and_the_terminal_is_given_back(recordings):
    width = 60
    outcome, shown = on_terminal(["caption", recordings[0], "-l", "en", "-k", "5", "--gate", "always"], width=width)
    assert outcome.code == 0
    assert shown.count(HIDE) == shown.count(SHOW) > 0
    assert shown.rindex(SHOW) > shown.rindex(HIDE)
    assert COLOUR.search(shown)
    assert "drafting" in shown
    rows = [line.rstrip() for line in ESCAPE.sub("", shown).replace("\r", "\n").split("\n")]
    assert max(len(row) for row in rows) <= width
    numbered = [row for row in rows if re.match(r" {6,7}\d+ ", row)]
    assert len(numbered) >= 3
    after = " ".join(ESCAPE.sub("", shown[shown.rindex(SHOW) :]).split())
    piped = Fork(["caption", "-q", recordings[0], "-l", "en", "-k", "5", "--gate", "always"]).wait().out.strip()
    assert after.count(piped) == 1  # the finished caption is shown, once


@pytest.mark.slow
def test_a_comparison_that_is_interrupted_shows_what_was_done_so_far(recordings, tmp_path):
    output = tmp_path / "t.jsonl"
    more = [write_voice(tmp_path / f"voice {seed}.wav", seed, 1.0) for seed in range(20)]
    fork = Fork(["compare", *recordings, *map(str, more), "-o", str(output), "--set", "decoding.max_new_tokens=8"])
    fork.wait_for_lines(output, 9)
    fork.send(signal.SIGINT)
    outcome = fork.wait()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert "interrupted" in outcome.err
    done = Counter(file for file, _ in {(run.file, run.mode) for run in read_transcripts(output)})
    assert outcome.out.startswith(f"{list(done.values()).count(4)} clip")
    assert "time of all clips" in outcome.out
    assert output.read_bytes().endswith(b"\n")
