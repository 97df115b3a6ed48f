"""What tests ask of the machine: an address at which nothing listens, and the most memory that a block takes."""

import atexit
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_taken = socket.socket()
_taken.bind(("127.0.0.1", 0))
atexit.register(_taken.close)
NOBODY: Final = f"http://127.0.0.1:{_taken.getsockname()[1]}"
"""A port that this process holds and does not listen at: every connection is refused."""


@contextmanager
def growing_less_than(most: int) -> Iterator[None]:
    """Fails if the memory of this process is at any time of the block `most` bytes above what it was before.

    Linux forgets the highest value so far; elsewhere only what exceeds it is seen.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < most
