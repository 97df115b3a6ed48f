"""Commands for `harness.Fork` that do something beside what users know."""

import io
import os
import sys
import time
from pathlib import Path

from specdec_cli.cli import ending, main
from specdec_cli.targets import writing


def wait_for_stdin() -> None:
    """The command, whose standard input is a pipe into which nothing is written."""
    os.dup2(os.pipe()[0], 0)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    main()


def patient() -> None:
    """The command, which has a minute to end: the machine may be busy."""
    ending._GRACE_S = ending._AGAIN_S = 60.0
    main()


def hang() -> None:
    """Looks at no flag."""
    ending._GRACE_S = 2.0
    ending._AGAIN_S = 1.0
    with ending.signals():
        print("here", file=sys.stderr, flush=True)
        time.sleep(60)


def write_for_long() -> None:
    """Writes to a slow disk."""
    ending._GRACE_S = 0.1
    with ending.signals(), writing(Path("file")):
        print("here", file=sys.stderr, flush=True)
        time.sleep(0.6)
        os.write(1, b"written")
        time.sleep(0.1)
        os.write(1, b" whole")


def say_what_is_opened() -> None:
    """The command, which says at its end how many recordings it opened."""
    opened = set[str]()
    sys.addaudithook(lambda event, given: opened.add(str(given[0])) if event == "open" else None)
    try:
        main()
    finally:
        os.write(2, f"{sum(name.endswith('.wav') for name in opened)} recordings opened\n".encode())
