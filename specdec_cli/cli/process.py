"""The process of a command: how it begins, and how it ends."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Final

from specdec_cli.cli.ending import signals
from specdec_cli.errors import BROKEN_PIPE_STATUS, ConfigError, SpecdecError, as_specdec_error


def main() -> None:
    """The entry point: runs a command, as `CaptionCommand`. Every error becomes a sentence, a hint and an exit code.

    Signals are handled from the first import on.
    """
    debug = "--debug" in sys.argv
    with signals():
        prepare_process()
        _open_standard_streams()
        try:
            from specdec_cli.cli.app import parse_command_line

            command = parse_command_line()  # of `specdec caption` a `cli.caption.CaptionCommand`, with its options
            raise SystemExit(command if isinstance(command, int) else command.run())
        except SystemExit as end:  # rich and typer exit with 1 where the reader of stdout has gone
            gone = isinstance(end.__context__, BrokenPipeError)
            raise SystemExit(BROKEN_PIPE_STATUS if gone else _flushed(debug) or end.code) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except BrokenPipeError:
            raise SystemExit(_flushed(debug) or BROKEN_PIPE_STATUS) from None
        except Exception as error:
            closed = isinstance(error, io.UnsupportedOperation) and not sys.stdout.writable()
            known = ConfigError("Standard output is closed.", hint=_OPEN) if closed else as_specdec_error(error)
            _report(known, debug)
            raise SystemExit(known.status) from None


_OPEN: Final = "Results go there: do without >&-, or send them to a file."


def prepare_process() -> None:
    """Adjusts OpenMP, oneDNN and Python to a process that runs one command. Variables that the user has set stay.

    OpenMP threads that wait for work do not spin: beside a busy process a clip would take 20 s instead of 0.5 s. oneDNN
    keeps its code for 64 shapes, not for a thousand, which take 250 MB, and PyTorch what it prepares of them for 4 in
    each thread, not for a thousand either: 1 MB each. Threads take turns of 0.1 ms, since a step of the decoder takes
    0.4 ms and Python's turns 5 ms. The garbage collector searches the libraries' objects less often. A terminal
    without width or height (COLUMNS=0 in containers) is one of unknown size: rich would print nothing.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "4")
    for size in ("COLUMNS", "LINES"):
        if not os.environ.get(size, "").strip("0"):
            os.environ.pop(size, None)
    sys.setswitchinterval(1e-4)
    gc.set_threshold(50_000, 20, 100)


def _open_standard_streams() -> None:
    """Reopens standard streams that are closed (`2>&-`): else the next file, such as a transcript, becomes stderr.

    What is written to a stdout that was closed raises io.UnsupportedOperation.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = sys.stdout or io.TextIOWrapper(io.BufferedReader(io.FileIO(1, closefd=False)), "utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8")


def _flushed(debug: bool) -> int:
    """Flushes stdout, or drops what cannot be written; the exit code if something could not, else 0."""
    try:
        if sys.stdout.writable():
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE_STATUS
        hint = "Check the free space, and where it is sent to."
        _report(SpecdecError(f"Standard output cannot be written: {error.strerror}.", hint=hint), debug)
        return SpecdecError.status
    return 0


def _report(error: SpecdecError, debug: bool) -> None:
    from specdec_cli.console.plain import print_error

    print_error(error, debug=debug)
    _flushed(debug)
