"""Waiting for what another thread or process brings about."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something comes to hold in so much time."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.005)
    return held
