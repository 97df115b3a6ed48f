"""A memory of failures: while a cloud is known to be down, clips do not wait for it one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Says whether to try.

    After a failure nobody tries for `retry_s` seconds. Then one call goes out to see; while it is under way, and if it
    fails, the others are told no.

    Args:
        retry_s: seconds without a try after a failure.
        clock: seconds, monotonic.
    """

    def __init__(self, retry_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._retry_s = retry_s
        self._clock = clock
        self._failed_at: float | None = None
        self._probing = False
        self.reason = ""

    def admits(self) -> bool:
        """Whether a call may go out; if so, `succeeded`, `failed` or `undecided` is to be called behind it."""
        if self._failed_at is None:
            return True
        if self._probing or self._clock() - self._failed_at < self._retry_s:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """The cloud answered."""
        self._failed_at = None
        self._probing = False

    def failed(self, reason: str) -> None:
        """It did not."""
        self._failed_at = self._clock()
        self._probing = False
        self.reason = reason

    def undecided(self) -> None:
        """The call ended without saying anything about the cloud."""
        self._probing = False

    @property
    def since_s(self) -> float:
        """Seconds since the last failure."""
        return 0.0 if self._failed_at is None else self._clock() - self._failed_at
