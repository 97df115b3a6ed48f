"""Cuts a recording that is longer than a model's window into pieces of equal length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from specdec_cli.audio.content import MIN_DURATION_S, SILENCE_DBFS, loudest_frame_dbfs
from specdec_cli.audio.decoded import Floats
from specdec_cli.audio.files import shown
from specdec_cli.errors import AudioContentError, ConfigError

if TYPE_CHECKING:
    from specdec_cli.audio.recording import Recording


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A piece of a recording, or all of it.

    Attributes:
        samples: float32 mono [n], a view into the recording's samples.
        start_s, end_s: place in the recording, seconds.
        silent: nothing in it is above -70 dBFS, so that a caption would be invented.
    """

    samples: Floats
    start_s: float
    end_s: float
    silent: bool = False

    @property
    def duration_s(self) -> float:
        """Length, seconds."""
        return self.end_s - self.start_s


def segments(recording: Recording, window_s: float, segment_s: float | None = None) -> list[Segment]:
    """The pieces of a recording that the model reads one at a time, in order and without gaps.

    The number of pieces is the smallest that keeps each within `segment_s`; they are all equally long (to a sample),
    so that there is no tail too short to describe, and each is longer than half of `segment_s`.

    Args:
        recording: what to cut.
        window_s: longest audio that the model reads at once, seconds.
        segment_s: longest piece, seconds; None to refuse what is longer than the window.

    Raises:
        AudioContentError: the recording is longer than the window and `segment_s` is None.
        ConfigError: `segment_s` is longer than the window, or shorter than 0.1 s.
    """
    rate, total = recording.sampling_rate, len(recording.samples)
    if segment_s is None:
        if total > _samples(window_s, rate):
            raise AudioContentError(
                f"{shown(recording.path)} lasts {recording.duration_s:.2f} s, "
                f"but the model reads {window_s:g} s at once.",
                hint=f"Caption it piece by piece with: --segment SECONDS, {window_s:g} at most.",
            )
        longest = max(total, 1)
    else:
        _require_fitting(segment_s, window_s)
        longest = _samples(segment_s, rate)
    count = max(1, -(-total // longest))
    bounds = [total * i // count for i in range(count + 1)]
    return [_segment(recording, start, end, whole=count == 1) for start, end in pairwise(bounds)]


def _segment(recording: Recording, start: int, end: int, *, whole: bool) -> Segment:
    rate, samples = recording.sampling_rate, recording.samples[start:end]
    silent = not whole and loudest_frame_dbfs(samples, rate) < SILENCE_DBFS
    return Segment(samples, start / rate, end / rate, silent)


def _samples(seconds: float, rate: int) -> int:
    """Whole samples in a length; the small number keeps 0.1 * 16000 from losing one to rounding."""
    return math.floor(seconds * rate + 1e-6)


def _require_fitting(segment_s: float, window_s: float) -> None:
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
