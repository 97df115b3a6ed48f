"""What a single forward of each kind costs, apart from the loop: the loop's floor is a sum of these."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.result import StepName
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
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
    edge = _session(models.edge, clip.edge, text, models.vocab_size)
    yield from _read(edge, "edge-tower", "edge-prefill")
    yield from _step(edge, text, "edge-step")
    cloud = _session(models.cloud, clip.cloud, text, models.vocab_size)
    yield from _read(cloud, "cloud-tower", "cloud-prefill")
    yield from _step(cloud, text, "cloud-step")
    for start in range(0, len(text) - k + 1, k + 1):
        yield Measured("verification", _pass_ms(cloud, text[: start + k], k + 1), k + 1)


def _session(model: AudioLM, prompt: Prompt, text: Sequence[int], vocab_size: int) -> Session:
    return Session(model, prompt, len(text), vocab_size)


def _read(session: Session, tower: StepName, prefill: StepName) -> Iterator[Measured]:
    session.prefill()
    yield Measured(tower, session.work.encoder_ms, len(session.prompt.ids))
    yield Measured(prefill, session.work.prefill_ms, session.length)


def _step(session: Session, text: Sequence[int], name: StepName) -> Iterator[Measured]:
    for end in range(len(text)):
        yield Measured(name, _pass_ms(session, text[:end], 1), 1)


def _pass_ms(session: Session, text: Sequence[int], positions: int) -> float:
    """Milliseconds of one pass, scoring included."""
    started = time.perf_counter()
    session.logits(text, positions)
    return (time.perf_counter() - started) * 1e3
