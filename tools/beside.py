"""How much longer a clip takes beside busy processes: `python -m tools.beside`.

With as many busy processes as cores a fair share of them is half, so that a clip takes about twice as long. Threads
that spin while they wait give no core away and wait for each other in vain: then it takes many times as long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final

_BUSY: Final = "while True: pass"
_CLIPS: Final = 7


def measure(processes: int, clips: int = _CLIPS) -> dict[str, float]:
    """Captions test sound with the mini pair on a quiet machine and beside busy processes.

    Args:
        processes: busy ones.
        clips: captions of either kind; the median counts.

    Returns:
        Milliseconds of a clip (`quiet_ms`, `beside_ms`) and their ratio (`times`).
    """
    from specdec_cli.captioner import Captioner
    from specdec_cli.models.processor import test_sound

    captioner = Captioner.load("mini", {"decoding.mode": "lossless"})
    sound = test_sound(1.0, captioner.sampling_rate)

    def caption_ms() -> float:
        started = time.perf_counter()
        captioner.run_samples(sound, captioner.sampling_rate).finish()
        return (time.perf_counter() - started) * 1e3

    caption_ms()  # the first one allocates memory and picks kernels
    quiet = median(caption_ms() for _ in range(clips))
    with _busy(processes):
        beside = median(caption_ms() for _ in range(clips))
    return {"quiet_ms": round(quiet, 1), "beside_ms": round(beside, 1), "times": round(beside / quiet, 2)}


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Measures beside as many busy processes as there are cores, and prints the figures as JSON."""
    print(json.dumps(measure(os.cpu_count() or 1)))


if __name__ == "__main__":
    main()
