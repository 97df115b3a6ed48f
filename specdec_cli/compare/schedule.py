"""In which order recordings and modes take their turns, so that none has the better place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Turn(Generic[R, M]):
    """One recording, in all modes one after the other.

    Attributes:
        recording: whose turn it is.
        modes: in the order in which they run.
        repeat: 0-based.
    """

    recording: R
    modes: tuple[M, ...]
    repeat: int


def turns(recordings: Sequence[R], modes: Sequence[M], repeats: int) -> Iterator[Turn[R, M]]:
    """Every recording once, then every one again for each further repeat.

    The modes take their turns clip by clip rather than one after the whole of the other, so that a machine that grows
    hot or busy slows all of them; their order rotates, so that each comes first, second and so on equally often.
    """
    for repeat in range(repeats):
        for index, recording in enumerate(recordings):
            first = (index + repeat) % len(modes)
            yield Turn(recording, (*modes[first:], *modes[:first]), repeat)
