"""How signals end a command: soon, with whole lines, and in any case."""

from __future__ import annotations

import _thread
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from specdec_cli import interrupts

_GRACE_S: Final = 15.0  # from the signal that ends a command to its end
_AGAIN_S: Final = 5.0  # the same, of a signal that came before
_WRITE_S: Final = 5.0  # longest wait for a file that is being written
_TELL_S: Final = 1.0  # longest wait for a sentence on stderr
_SHOW_CURSOR: Final = b"\x1b[?25h"


class Interruption:
    """Whether Ctrl-C asked to begin nothing more; see `interruptible`."""

    def __init__(self, stopping: Callable[[], None]) -> None:
        self.asked, self._told, self._stopping = False, False, stopping

    def tell(self) -> None:
        """Says that the command is stopping."""
        self._stopping()
        self._told = True

    def wait_until_told(self) -> None:
        """Waits for the thread that says so: on a busy machine the command may be faster. Its stderr may be stuck."""
        until = time.monotonic() + _TELL_S
        while self.asked and not self._told and time.monotonic() < until:
            time.sleep(0.01)

    def check(self) -> bool:
        """Whether nothing more is to be begun. Ends the command as `interrupts.check` does."""
        interrupts.check()
        return self.asked


_interruption: Interruption | None = None  # of the block of `interruptible` that runs
_seen: set[int] = set()


@contextmanager
def signals() -> Iterator[None]:
    """Within the block SIGTERM and Ctrl-C end the command, which is all that this process does.

    It has `_GRACE_S` seconds. Then the stacks of its threads go to stderr, and the process exits. A command that obeyed
    a signal leaves the process at once, whatever threads are at work.
    """
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as end:
        if interrupts.obeyed():
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else 130)
        raise
    finally:  # what comes now is Python's own end, in which nothing is left to lose
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is signal.default_int_handler else handler)


@contextmanager
def interruptible(stopping: Callable[[], None]) -> Iterator[Interruption]:
    """Within the block the first Ctrl-C asks to begin nothing more and calls `stopping`; the next one ends the command.

    The caller looks at `Interruption.check` all the time.
    """
    global _interruption
    _interruption = interruption = Interruption(stopping)
    try:
        yield interruption
        interruption.check()
    finally:
        _interruption = None
        interruption.wait_until_told()


def handle(number: int, _frame: FrameType | None) -> None:
    """Handles SIGINT and SIGTERM: sets a flag. All else is done in a thread that needs no lock of `threading`."""
    interruption, again = _interruption, number in _seen
    _seen.add(number)
    if interruption is not None and number == signal.SIGINT and not interruption.asked:
        interruption.asked = True
        _thread.start_new_thread(interruption.tell, ())
        return
    interrupts.ask(number)
    limit_s = _AGAIN_S if again else _GRACE_S
    # if no thread of Python gets its turn
    faulthandler.dump_traceback_later(2 * limit_s + _WRITE_S, exit=True, file=sys.__stderr__ or 2)
    _thread.start_new_thread(_end_in_time, (number, limit_s))


def _end_in_time(number: int, limit_s: float) -> None:
    """Ends what waits, and the process once the time is over. A command that obeys Ctrl-C may still show results."""
    until = time.monotonic() + limit_s
    interrupts.wake()
    while time.monotonic() < until:
        if interrupts.obeyed() and number == signal.SIGINT:
            faulthandler.cancel_dump_traceback_later()
            return
        time.sleep(interrupts.POLL_S)
    interrupts.WRITING.acquire(timeout=_WRITE_S)
    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)
    os.write(2, f"specdec did not end within {limit_s:g} s; its threads are here:\n".encode())
    faulthandler.dump_traceback(2)
    os._exit(128 + number)
