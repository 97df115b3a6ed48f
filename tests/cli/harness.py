"""Ways to run the command line: in this process, in a fork with real streams, and as its own process.

The fork has the mini pair loaded already, so that pipes, signals and terminals can be tested in a tenth of a second.
"""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.cli import main
from specdec_cli.config import Config
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.transcript import Transcript
from specdec_cli.types import Loading
from tests.cli.status import exit_code
from tests.mini_pair import captioner_for, mini_pair
from tests.waiting import until

COMMAND = (sys.executable, "-m", "specdec_cli")
CHINESE = "zh_CN.UTF-8"
QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=4")
"""Settings that make a caption cheap, for tests of what is around it."""
_ROOT = Path(__file__).parents[2]
_SETS_THE_SCENE = ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def environment(**more: str) -> dict[str, str]:
    """The variables of this process without those that change displays or settings, plus `more`."""
    kept = {k: v for k, v in os.environ.items() if k not in _SETS_THE_SCENE and not k.startswith("SPECDEC_")}
    return kept | {"TERM": "xterm-256color", "PYTHONUTF8": "1", "PYTHONPATH": str(_ROOT), "LC_ALL": CHINESE} | more


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of stdout."""
        return self.out.splitlines()


def telling(transcript: Transcript) -> tuple[object, ...]:
    """What of a line must not depend on when and beside whom the clip was captioned, beginning with its place."""
    rounds = [(round_.draft_ids, round_.committed_ids, round_.escalated) for round_ in transcript.rounds]
    settings = json.dumps(transcript.settings, sort_keys=True)
    place = (transcript.file, transcript.start_s, transcript.end_s, transcript.sha256, transcript.duration_s)
    error = transcript.error.message if transcript.error else None
    said = (transcript.caption, error, transcript.finish_reason, json.dumps(transcript.labels), rounds, settings)
    return (*place, transcript.language, transcript.prompt, *said)


def load_mini(config: Config, *, loading: Loading = nullcontext, cuts: Cuts | None = None) -> Captioner:
    """Stands in for `Captioner.load`: the display is told, the weights are there already."""
    with loading("edge: package:mini/edge"):
        return captioner_for(config, cuts)


def process(*arguments: str, timeout: float = 600, **variables: str) -> Outcome:
    """Runs the command line as a process of its own."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, env=environment(**variables), timeout=timeout)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@cache
def ready() -> None:
    """Loads the mini pair and imports what commands import when they are used: forks have both from the start."""
    mini_pair()
    for name in (
        *("cli.app", "cli.batch", "cli.caption", "cli.compare", "cli.set_up", "console.view"),
        *("evaluate.comparison", "evaluate.running"),
    ):
        import_module(f"specdec_cli.{name}")


class Fork:
    """The command line in a fork of this process, with the mini pair loaded.

    Args:
        arguments: of the command line.
        stdout, stderr: descriptors to use; None: a pipe that is read into the outcome.
        variables: environment variables.
        folder: working directory.
        closed: descriptors that are closed when it starts.
        command: another one, which needs no models.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        closed: Collection[int] = (),
        command: Callable[[], object] | None = None,
    ) -> None:
        if command is None:
            ready()
        self._readers: dict[int, _Reader] = {}
        ends = {1: stdout, 2: stderr}
        pipes = {number: os.pipe() for number, given in ends.items() if given is None}
        sys.stdout.flush()
        sys.stderr.flush()
        # a handler of this process (Ray has one) would look like the command's own, and would not end it
        before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.pid = os.fork()
        if self.pid == 0:
            for number, given in ends.items():
                os.dup2(pipes[number][1] if given is None else given, number)
            os.closerange(3, 256)
            _become(arguments, environment(**(variables or {})), folder, closed, command or main)
        signal.signal(signal.SIGTERM, before)
        for number, (reading, writing) in pipes.items():
            os.close(writing)
            self._readers[number] = _Reader(reading)

    def says(self, text: str, timeout_s: float = 600.0) -> None:
        """Waits until its stderr, a pipe, holds a text."""
        said = until(lambda: text in self._readers[2].so_far.decode(errors="replace"), timeout_s)
        assert said, f"it did not say {text!r}"

    def wait_for_lines(self, output: Path, count: int, timeout_s: float = 600.0) -> None:
        """Waits until a file has so many lines, or the process is over."""
        deadline = time.monotonic() + timeout_s
        while not output.exists() or output.read_bytes().count(b"\n") < count:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            assert time.monotonic() < deadline, f"{output} did not get {count} lines"
            time.sleep(0.002)

    def minds_signals(self) -> None:
        """Waits until the command handles signals, or is over."""
        if not Path("/proc").exists():
            time.sleep(0.5)
            return

        def handled() -> bool:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
            over, caught = status["State"].strip().startswith("Z"), int(status["SigCgt"], 16)
            return over or bool(caught >> (signal.SIGTERM - 1) & 1)

        assert until(handled)

    def send(self, signal_number: int) -> None:
        """Sends a signal."""
        os.kill(self.pid, signal_number)

    def wait(self) -> Outcome:
        """How it ended; -n for a signal n that it did not handle."""
        _, status = os.waitpid(self.pid, 0)
        texts = {number: reader.finish().decode() for number, reader in self._readers.items()}
        return Outcome(os.waitstatus_to_exitcode(status), texts.get(1, ""), texts.get(2, ""))


class _Reader:
    """Reads a descriptor to its end in a thread."""

    def __init__(self, descriptor: int) -> None:
        self._chunks: list[bytes] = []
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._descriptor, 65536):
                self._chunks.append(chunk)
        except OSError:  # Linux reports the end of a pseudo-terminal so
            pass

    @property
    def so_far(self) -> bytes:
        return b"".join(self._chunks)

    def finish(self) -> bytes:
        self._thread.join()
        os.close(self._descriptor)
        return self.so_far


def on_terminal(
    arguments: Sequence[str],
    *,
    width: int,
    piped: bool = False,
    command: Callable[[], object] | None = None,
    **variables: str,
) -> tuple[Outcome, str]:
    """Runs in a fork on a pseudo-terminal; returns the outcome and all that the terminal was sent.

    Args:
        arguments: of the command line.
        width: columns.
        piped: whether stdout is a pipe; else it is the terminal too.
        command: another one, which needs no models.
        variables: environment variables.
    """
    leader, follower = os.openpty()
    reader = _Reader(leader)
    fork = Fork(
        arguments,
        stdout=None if piped else follower,
        stderr=follower,
        variables={"COLUMNS": str(width), "LINES": "30"} | variables,
        command=command,
    )
    os.close(follower)
    outcome = fork.wait()
    return outcome, reader.finish().decode().replace("\r\n", "\n")


def _become(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    folder: Path | None,
    closed: Collection[int],
    command: Callable[[], object],
) -> None:
    """In the fork: behaves like a fresh process from here on, and ends it."""
    code = 99
    try:
        torch.set_num_threads(
            torch.get_num_threads()
        )  # a fork's pool is made anew, and two threads may not race for it
        # A test run in the background ignores SIGINT, and so would its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(variables)
        if folder is not None:
            os.chdir(folder)
        sys.argv = ["specdec", *arguments]
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", line_buffering=os.isatty(1))
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)
        for number in closed:  # as Python finds it at its start
            os.close(number)
            setattr(sys, ("stdin", "stdout", "stderr")[number], None)
        Captioner.load = load_mini
        code = exit_code(command, own_process=True)
        sys.stdout.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
