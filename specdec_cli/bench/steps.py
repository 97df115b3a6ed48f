"""Single forwards, timed apart from the loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.result import StepName
from specdec_cli.models.session import Session

AUTO_BLOCK: Final = 5
"""Drafted tokens of a block whose costs are measured where k is chosen as it goes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One forward.

    Attributes:
        name: of which kind.
        ms: how long it took.
        tokens: how many it was fed.
    """

    name: StepName
    ms: float
    tokens: int


def block_of(k: int | str) -> int:
    """Drafted tokens of a block: k itself, where it is a number."""
    return k if isinstance(k, int) else AUTO_BLOCK


def measure_steps(models: Models, clip: Clip, text: Sequence[int], k: int) -> Iterator[Measured]:
    """Feeds `text` to both models as their loops would.

    Args:
        models: both.
        clip: the recording.
        text: the token ids of a caption.
        k: a verification scores k + 1 positions.
    """
    edge = Session(models.edge, clip.edge, len(text), models.vocab_size)
    yield from _steps(edge, text, ("edge-tower", "edge-prefill", "edge-step"))
    cloud = Session(models.cloud, clip.cloud, len(text), models.vocab_size)
    yield from _steps(cloud, text, ("cloud-tower", "cloud-prefill", "cloud-step"))
    for start in range(0, len(text) - k + 1, k + 1):
        yield Measured("verification", _forward_ms(cloud, text[: start + k], k + 1), k + 1)


def _steps(session: Session, text: Sequence[int], names: tuple[StepName, StepName, StepName]) -> Iterator[Measured]:
    tower, prefill, step = names
    session.prefill()
    yield Measured(tower, session.work.encoder_ms, len(session.prompt.ids))
    yield Measured(prefill, session.work.prefill_ms, session.length)
    for end in range(len(text)):
        yield Measured(step, _forward_ms(session, text[:end], 1), 1)


def _forward_ms(session: Session, text: Sequence[int], positions: int) -> float:
    """Milliseconds of one forward, scoring included."""
    started = time.perf_counter()
    session.logits(text, positions)
    return (time.perf_counter() - started) * 1e3
