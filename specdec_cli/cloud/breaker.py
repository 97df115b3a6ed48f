"""A circuit breaker: while a cloud is down, clips do not wait for it one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Decides whether a call may go out.

    After a failure nobody tries for `retry_s` seconds. Then one call goes out as a probe; the others are refused while
    it is under way, and if it fails.

    Args:
        retry_s: seconds without a try after a failure.
        clock: seconds, monotonic.
    """

    def __init__(self, retry_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.reason = ""
        self._retry_s = retry_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failed_at: float | None = None
        self._probing = False

    def admits(self) -> bool:
        """Whether a call may go out; if so, `succeeded`, `failed` or `undecided` must follow."""
        with self._lock:
            if self._failed_at is None:
                return True
            if self._probing or self.since_s < self._retry_s:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """The cloud answered."""
        with self._lock:
            self._failed_at, self._probing = None, False

    def failed(self, reason: str) -> None:
        """It did not."""
        with self._lock:
            self._failed_at, self._probing, self.reason = self._clock(), False, reason

    def undecided(self) -> None:
        """The call ended without telling anything about the cloud."""
        with self._lock:
            self._probing = False

    @property
    def since_s(self) -> float:
        """Seconds since the last failure, or 0."""
        return 0.0 if self._failed_at is None else self._clock() - self._failed_at

    @property
    def open(self) -> bool:
        """Whether the last call failed."""
        return self._failed_at is not None
