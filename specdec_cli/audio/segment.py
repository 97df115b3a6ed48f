"""Cuts a recording that is longer than a model's window into pieces of equal length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from specdec_cli.audio.checks import MIN_DURATION_S, Floats, is_silent
from specdec_cli.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A piece of a recording, or all of it.

    Attributes:
        samples: float32 mono [n].
        start_s, end_s: place in the recording, seconds.
        silent: nothing in it is above -70 dBFS, so that a caption would be invented. False for a whole recording,
            which is refused instead.
    """

    samples: Floats
    start_s: float
    end_s: float
    silent: bool = False

    @property
    def duration_s(self) -> float:
        """Length, seconds."""
        return self.end_s - self.start_s


def whole_samples(seconds: float, sampling_rate: int) -> int:
    """Whole samples in a length; the small number keeps 0.1 * 16000 from losing one to rounding."""
    return math.floor(seconds * sampling_rate + 1e-6)


def cut(blocks: Iterable[Floats], total: int, count: int, sampling_rate: int) -> Iterator[Segment]:
    """`count` pieces of `total` samples, in order and without gaps, all equally long (to a sample).

    Args:
        blocks: float32 mono [n], any lengths. One sample too few is filled with zero, one too many is left out.
        total: samples of the recording.
        count: how many pieces.
        sampling_rate: of the samples, Hz.
    """
    source, rest = iter(blocks), np.zeros(0, np.float32)
    for index in range(count):
        start, end = total * index // count, total * (index + 1) // count
        samples, filled = np.zeros(end - start, np.float32), 0
        while filled < len(samples):
            if not len(rest):
                rest = next(source, samples[filled:])  # zeros
            taken = rest[: len(samples) - filled]
            samples[filled : filled + len(taken)] = taken
            filled, rest = filled + len(taken), rest[len(taken) :]
        silent = count > 1 and is_silent(samples, sampling_rate)
        yield Segment(samples, start / sampling_rate, end / sampling_rate, silent)


def require_fitting(segment_s: float, window_s: float) -> None:
    """Raise ConfigError unless a piece of `segment_s` seconds can be described and fits the window."""
    if not math.isfinite(segment_s) or segment_s < MIN_DURATION_S:
        raise ConfigError(
            f"A segment of {segment_s:g} s is too short to describe; {MIN_DURATION_S} s is the least.",
            hint=f"Give a length between {MIN_DURATION_S} and {window_s:g} seconds.",
        )
    if segment_s > window_s:
        raise ConfigError(
            f"A segment of {segment_s:g} s is longer than the {window_s:g} s that the model reads at once.",
            hint=f"Give a length of {window_s:g} seconds or less.",
        )
