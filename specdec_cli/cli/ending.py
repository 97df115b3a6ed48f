"""How signals end a command: soon, with whole lines, and in any case."""

from __future__ import annotations

import _thread
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_GRACE_S: Final = 15.0  # from the signal that ends a command to its end
_SHOW_CURSOR: Final = b"\x1b[?25h"


class Interruption:
    """Which signals came since a block began, and what they ask for; see `interruptible`."""

    def __init__(self, stopping: Callable[[], None], *, polled: bool) -> None:
        self.asked = False  # whether Ctrl-C asked to begin nothing more
        self.stopping, self.polled = stopping, polled
        self.end: int | None = None  # the signal that asked to end at once

    def check(self) -> bool:
        """Whether nothing more is to be begun. Raises what ends the command, if a signal asked for its end."""
        if self.end is not None:
            raise _ending(self.end)
        return self.asked


_block: Interruption | None = None
_seen: set[int] = set()


@contextmanager
def signals() -> Iterator[None]:
    """Within the block SIGTERM and Ctrl-C end the command.

    After SIGTERM or a second Ctrl-C it has `_GRACE_S` seconds. Then the stacks of its threads go to stderr, and the
    process exits.
    """
    _seen.clear()
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible(stopping: Callable[[], None], *, polled: bool = False) -> Iterator[Interruption]:
    """Within the block the first Ctrl-C calls `stopping`, and the next one ends the command.

    With `polled` a signal raises nothing where it arrives; `check` does, which the caller has to call all the time.
    CPython 3.11 and 3.12 may skip the exit of a `with` block that a signal interrupts, and its threads would never end.
    """
    global _block
    _block = block = Interruption(stopping, polled=polled)
    before = signal.signal(signal.SIGINT, handle)  # a library may have replaced the handler
    try:
        yield block
        block.check()
    finally:
        _block = None
        signal.signal(signal.SIGINT, before)


def handle(number: int, _frame: FrameType | None) -> None:
    """Handles SIGINT and SIGTERM."""
    block, again = _block, number in _seen
    _seen.add(number)
    if block is not None and number == signal.SIGINT and not block.asked:
        block.asked = True
        block.stopping()
        return
    if again or number == signal.SIGTERM:
        # `threading` has locks that the interrupted code may hold
        _thread.start_new_thread(_end_in_time, (128 + number,))
        faulthandler.dump_traceback_later(2 * _GRACE_S, exit=True, file=sys.__stderr__ or 2)
    if block is None or not block.polled:
        raise _ending(number)
    block.end = number


def _ending(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _end_in_time(code: int) -> None:
    """Ends the process once the time is over; lines are written whole, and the system frees its locks."""
    time.sleep(_GRACE_S)
    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)
    os.write(2, f"specdec did not end within {_GRACE_S:g} s; its threads are here:\n".encode())
    faulthandler.dump_traceback(2)
    os._exit(code)
