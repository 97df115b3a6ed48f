"""Ways to run the command line: in this process, in a fork with real streams, and as its own process.

The fork is that of a server, a process of its own that has the mini pair loaded already, so that pipes, signals and
terminals can be tested in a tenth of a second.
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
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.cli import main
from specdec_cli.config import Config
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.transcript import Transcript
from specdec_cli.types import Loading
from tests.mini_pair import captioner_for
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


def process(*arguments: str, **variables: str) -> Outcome:
    """Runs the command line as a process of its own."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, env=environment(**variables), timeout=600)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def exit_code(command: Callable[[], object] = main, *, own_process: bool = False) -> int:
    """Runs a command on sys.argv; what a shell would see as its status.

    Args:
        command: specdec's, or another one.
        own_process: signals end the command, as for a user. Else they are left to whoever runs this process: they are
            meant for the tests, which would otherwise go on with the next one.
    """
    try:
        if own_process:
            command()
        else:
            with patch("specdec_cli.cli.ending.signals", nullcontext):
                command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


class Fork:
    """The command line as a process that has the mini pair loaded, see `preloaded`.

    Args:
        arguments: of the command line.
        stdout, stderr: descriptors to use; None: a pipe that is read into the outcome.
        variables: environment variables.
        folder: working directory; None: that of this process.
        closed: descriptors that are closed when it starts.
        command: another one, a function of a module.
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
        command: Callable[[], object] = main,
    ) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["tests.cli.preloaded"])
        self._readers: dict[int, _Reader] = {}
        ends = dict[int, Connection]()  # which can be sent
        for number, given in ((1, stdout), (2, stderr)):
            if given is None:
                reading, writing = os.pipe()
                self._readers[number] = _Reader(reading)
            else:
                writing = os.dup(given)
            ends[number] = Connection(writing)
        what = (arguments, environment(**(variables or {})), folder or Path.cwd(), closed, command, ends)
        self._process = context.Process(target=_become, args=what, daemon=True)
        self._process.start()
        self.pid = self._process.pid
        for end in ends.values():
            end.close()

    def says(self, text: str) -> None:
        """Waits until its stderr, a pipe, holds a text."""
        said = until(lambda: text in self._readers[2].so_far.decode(errors="replace"), 600)
        assert said, f"it did not say {text!r}"

    def wait_for_lines(self, output: Path, count: int) -> None:
        """Waits until a file has so many lines, or the process is over."""

        def written() -> bool:
            return output.exists() and output.read_bytes().count(b"\n") >= count

        assert until(lambda: written() or not self._process.is_alive(), 600), f"{output} has not {count} lines"

    def minds_signals(self) -> None:
        """Waits until the command handles signals, or is over."""
        if not Path("/proc").exists():
            time.sleep(0.5)
            return

        def handled() -> bool:
            try:
                lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            except OSError:
                return True
            caught = int(dict(line.split(":", 1) for line in lines)["SigCgt"], 16)
            return bool(caught >> (signal.SIGTERM - 1) & 1)

        assert until(handled)

    def send(self, signal_number: int) -> None:
        """Sends a signal, if it is not over."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal_number)

    def wait(self) -> Outcome:
        """How it ended; -n for a signal n that it did not handle."""
        self._process.join()
        texts = {number: reader.finish().decode() for number, reader in self._readers.items()}
        return Outcome(self._process.exitcode, texts.get(1, ""), texts.get(2, ""))


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
    meanwhile: Callable[[Fork], None] = lambda _: None,
    **variables: str,
) -> tuple[Outcome, str]:
    """Runs in a fork on a pseudo-terminal; returns the outcome and all that the terminal was sent.

    Args:
        arguments: of the command line.
        width: columns.
        piped: whether stdout is a pipe; else it is the terminal too.
        meanwhile: what is done while it runs.
        variables: environment variables.
    """
    leader, follower = os.openpty()
    reader = _Reader(leader)
    fork = Fork(
        arguments,
        stdout=None if piped else follower,
        stderr=follower,
        variables={"COLUMNS": str(width), "LINES": "30"} | variables,
    )
    os.close(follower)
    meanwhile(fork)
    outcome = fork.wait()
    return outcome, reader.finish().decode().replace("\r\n", "\n")


def _become(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    closed: Collection[int],
    command: Callable[[], object],
    ends: Mapping[int, Connection],
) -> None:
    """In the fork: behaves like a fresh process from here on, and ends it."""
    code = 99
    try:
        for number, end in ends.items():
            os.dup2(end.fileno(), number)
            end.close()
        assert sys.modules["tests.cli.preloaded"].THREADS == 1, "what was forked has other threads"
        torch.set_num_threads(torch.get_num_threads())  # the pool is made anew, and two threads may not race for it
        # A test run in the background ignores SIGINT, and so would its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(variables)
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
