"""CPU time by part of the work, measured at the models that do it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from specdec_cli.captioner import Captioner

Clock = Callable[[], float]
"""CPU seconds since any start, of the calling thread or of the process."""

PARTS: Final = ("audio", "edge tower", "cloud tower", "prefill", "edge steps", "cloud passes")
"""Decoding the file and its features; the audio towers; reading the prompts; drafting; verifying."""


class Meter:
    """Adds up CPU seconds by part while its block lasts.

    It stands in front of the methods of one captioner and of its models, and takes its place there away again.

    Args:
        captioner: whose work is measured.
        clock: see `Clock`.
    """

    def __init__(self, captioner: Captioner, clock: Clock) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._captioner = captioner
        self._clock = clock
        self._lock = threading.Lock()
        self._placed: list[tuple[object, str]] = []

    def __enter__(self) -> Meter:
        captioner = self._captioner
        for name in ("recording", "prompts"):
            self._place(captioner, name, self._timed("audio", getattr(captioner, name)))
        pair = captioner.pair
        for role, steps, model in (
            ("edge", "edge steps", pair.loaded_edge),
            ("cloud", "cloud passes", pair.loaded_cloud),
        ):
            if model is not None:
                self._place(model, "forward", self._forward(role, steps, model.forward))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name in self._placed:
            delattr(owner, name)

    def _place(self, owner: object, name: str, method: Callable[..., Any]) -> None:
        setattr(owner, name, method)
        self._placed.append((owner, name))

    def _add(self, part: str, seconds: float) -> None:
        with self._lock:
            self.seconds[part] += seconds

    def _timed(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            started = self._clock()
            try:
                return method(*arguments, **named)
            finally:
                self._add(part, self._clock() - started)

        return timed

    def _forward(self, role: str, steps: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """A forward; one that reads a clip counts as audio encoder and as prefill."""

        def timed(ids: Any, positions: Any, cache: Any, rows: Any, audio: Any = None, mask: Any = None) -> Any:
            started, wall = self._clock(), time.perf_counter()
            made = method(ids, positions, cache, rows, audio, mask)
            seconds, elapsed = self._clock() - started, time.perf_counter() - wall
            encoder = seconds * min(made[1] / 1e3 / elapsed, 1.0)
            self._add(f"{role} tower", encoder)
            self._add("prefill" if audio is not None else steps, seconds - encoder)
            return made

        return timed
