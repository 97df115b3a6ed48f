"""From the command to the first token: the parts of a start, each in a fresh process.

This process starts `python -m specdec_cli.bench.marks`, which does what `specdec caption` does and notes the time
behind each part. Both read the system-wide monotonic clock, so that the interpreter's own start counts too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from specdec_cli.errors import DecodingError

PARTS: Final[tuple[tuple[str, str], ...]] = (
    ("interpreter", "Python itself"),
    ("command", "specdec's command line and the configuration"),
    ("torch", "import of PyTorch"),
    ("transformers", "import of what is used of transformers"),
    ("ours", "import of the rest of specdec"),
    ("weights", "reading both checkpoints as the mode needs them"),
    ("audio", "reading and checking the recording, features, prompt"),
    ("prefill", "audio tower and prompt of the first caption"),
    ("first token", "from there to the first committed block"),
    ("warm-up", "of prefill and first token: what a second caption of the clip does not take"),
)
"""Name and meaning of each part, in the order of a start."""

WITHIN: Final = frozenset({"warm-up"})
"""Parts that lie within others."""


@dataclass(frozen=True, slots=True)
class PartTime:
    """One part of a start, medians over several.

    Attributes:
        name: one of `PARTS`.
        meaning: what it is.
        wall_ms: by the clock.
        cpu_ms: of the processor, all threads.
    """

    name: str
    meaning: str
    wall_ms: float
    cpu_ms: float


def time_start(config: str | None, settings: Sequence[str], clip: str | None, runs: int) -> list[PartTime]:
    """Starts the command `runs` times and takes the median of each part.

    Args:
        config: as --config takes it; None: the default.
        settings: as --set takes them.
        clip: the recording; None: a second of test sound.
        runs: fresh processes.

    Raises:
        DecodingError: the command failed there.
    """
    started = [_start(config, settings, clip) for _ in range(runs)]
    return [
        PartTime(name, meaning, *(median(run[name][clock] for run in started) for clock in (0, 1)))
        for name, meaning in PARTS
    ]


def _start(config: str | None, settings: Sequence[str], clip: str | None) -> dict[str, tuple[float, float]]:
    """Part -> (wall, CPU) milliseconds."""
    asked = json.dumps({"began": time.monotonic(), "config": config, "settings": list(settings), "clip": clip})
    done = subprocess.run(
        [sys.executable, "-m", "specdec_cli.bench.marks", asked], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise DecodingError(
            f"the command failed when its start was timed: {lines[-1] if lines else 'it said nothing'}",
            hint="Try: specdec doctor",
        )
    found: dict[str, tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return found
