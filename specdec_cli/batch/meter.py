"""CPU time by part of the work, measured at the models that do it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.models.family import Span

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
        self._place(captioner, "clips", self._listed(captioner.clips))
        self._place(captioner, "inputs", self._timed("audio", captioner.inputs))
        pair = captioner.pair
        for role, steps, model in (("edge", "edge steps", pair.edge), ("cloud", "cloud passes", pair.loaded_cloud)):
            if model is not None:
                self._place(model, "encode", self._timed(f"{role} tower", model.encode))
                self._place(model, "decode_together", self._forward(steps, model.decode_together))
                self._place(model, "logits", self._timed(steps, model.logits))
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

    def _listed(self, method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """A generator whose whole work is done, and measured, at once."""
        return lambda path: iter(self._timed("audio", lambda: list(method(path)))())

    def _forward(
        self, steps: str, method: Callable[[torch.Tensor, Sequence[Span]], torch.Tensor]
    ) -> Callable[[torch.Tensor, Sequence[Span]], torch.Tensor]:
        """A forward of several clips: those that read their prompt in it bear their share by tokens."""

        def timed(embeddings: torch.Tensor, spans: Sequence[Span]) -> torch.Tensor:
            prefilled = sum(span.length for span in spans if span.start == 0) / sum(span.length for span in spans)
            started = self._clock()
            hidden = method(embeddings, spans)
            seconds = self._clock() - started
            self._add("prefill", prefilled * seconds)
            self._add(steps, (1 - prefilled) * seconds)
            return hidden

        return timed
