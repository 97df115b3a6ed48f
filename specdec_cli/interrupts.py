"""How a signal ends a command: it sets a flag, and the command ends where it looks at the flag.

Nothing is raised where a signal arrives: CPython 3.11 and 3.12 may then skip the exit of a `with` block, and what is
raised in a finalizer is dropped. Outside of the command line the flag is never set.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

T = TypeVar("T")

POLL_S: Final = 0.1
"""How long something that waits may not look at the flag, seconds."""

WRITING: Final = threading.RLock()
"""Held while a file is written, so that a process that has to be ended ends before or after it."""

_asked: int | None = None  # the signal that asked for the end, until the command obeys it
_obeyed = False
_wakes: list[Callable[[], None]] = []


def ask(number: int) -> None:
    """Asks for the end, as a signal does. Its handler calls it, so it takes no lock."""
    global _asked, _obeyed
    _asked, _obeyed = number, False


def asked() -> bool:
    """Whether a signal asked for the end, which the command has not obeyed yet."""
    return _asked is not None


def obeyed() -> bool:
    """Whether the command is ending because a signal asked for it."""
    return _obeyed


def check() -> None:
    """Ends the command if a signal asked for it: raises KeyboardInterrupt, or SystemExit with the signal's status.

    Every loop of a command that may last calls it. In another thread than the main one it ends that thread's work; the
    command itself is ended by the main thread's next call.
    """
    global _asked, _obeyed
    if (number := _asked) is not None:
        if threading.current_thread() is threading.main_thread():
            _asked, _obeyed = None, True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def woken_by(wake: Callable[[], None]) -> Iterator[None]:
    """Within the block a signal that asks for the end has `wake` called, in another thread, to end what waits."""
    _wakes.append(wake)
    try:
        yield
    finally:
        _wakes.remove(wake)


def wake() -> None:
    """Ends what waits."""
    for each in list(_wakes):
        with suppress(Exception):
            each()


def wait_for(call: Callable[[], T]) -> T:
    """The result of a call that nothing can end, made in a thread; a signal ends the command without it."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="specdec waiting", daemon=True).start()
    done = False
    while not done:
        done = bool(wait([result], POLL_S).done)
        check()  # a signal that the call noticed ends the command here
    return result.result()
