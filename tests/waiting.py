"""Waiting for what another thread or process brings about."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether something comes to hold in so much time, which is only to end what would hang."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.005)
    return held
