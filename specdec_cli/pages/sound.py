"""What a page plays and draws of a recording: compressed audio, the envelope of its waveform, its pitch curve."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import av
import numpy as np
import numpy.typing as npt

from specdec_cli.audio import Cut, open_recording
from specdec_cli.audio.paths import opened
from specdec_cli.audio.paths import sha256 as digest_of
from specdec_cli.audio.prosody import HOP, LEAD, SAMPLE_RATE, f0_contour, measure
from specdec_cli.errors import AudioError
from specdec_cli.format import measured
from specdec_cli.types import Measured

COLUMNS: Final = 400
"""Most points of an envelope and of a pitch curve."""
BIT_RATE: Final = 48_000
"""Of the MP3, bit/s: 6 kB a second, 8 kB in a page. MP3 because there is no browser that does not play it."""
_FULL = 127  # largest step of an envelope

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ClipSound:
    """A clip to see and hear.

    Attributes:
        drawing: what the page's script draws: `envelope`, lowest and highest sample in turn of each column, the clip's
            peak 127; `peak`, its level in dB relative to full scale; `pitch`, median F0 of each column, Hz, None where
            less than half of it is voiced; `median`, of all voiced frames, None without any; `seconds`, its length.
        figures: what was measured.
        mp3: mono, 16 kHz.
    """

    drawing: dict[str, Any]
    figures: Measured
    mp3: bytes


class SoundUnavailable(Exception):
    """The recording cannot be shown; the message says why."""


def read_sound(file: str, sha256: str, start_s: float | None, end_s: float | None) -> ClipSound:
    """A clip as it was captioned; segments of a recording in a row share one decoding.

    Raises:
        SoundUnavailable: the file is gone, cannot be read, or is not the one that was captioned.
    """
    last = None if end_s is None else round(end_s * SAMPLE_RATE)
    samples = whole_recording(file, sha256)[round((start_s or 0.0) * SAMPLE_RATE) : last]
    if not len(samples):
        raise SoundUnavailable("The recording is shorter than it was when it was captioned.")
    found = measure(samples, SAMPLE_RATE)
    drawing = {
        "envelope": envelope(samples),
        "peak": round(20 * float(np.log10(max(float(np.abs(samples).max()), 1e-9))), 1),
        "pitch": pitch_columns(aligned_contour(samples), len(samples)),
        "median": found.f0_median_hz,
        "measured": measured(found),
        "seconds": round(len(samples) / SAMPLE_RATE, 3),
    }
    return ClipSound(drawing, found, mp3(samples))


@lru_cache(maxsize=1)
def whole_recording(file: str, sha256: str) -> Samples:
    """A whole recording, float32 mono [n] at 16 kHz."""
    (samples,) = pieces_of(file, sha256, None)
    return samples


def pieces_of(file: str, sha256: str, spans: Sequence[tuple[float, float]] | None) -> Iterator[Samples]:
    """Pieces of a recording of any length, one in memory at a time: float32 mono [n] at 16 kHz.

    Args:
        file, sha256: the recording, and the digest of what was captioned.
        spans: start and end of the pieces, seconds, sorted; the start is at least 0. None: all of it as one.

    Raises:
        SoundUnavailable: the file is gone, cannot be read, or is not the one that was captioned.
    """
    cuts, longest_s = None, math.inf
    if spans is not None:
        cuts = [Cut(start, end, place="the transcript") for start, end in spans]
        longest_s = max(end - start for start, end in spans)
    try:
        with opened(file) as content:
            if digest_of(content) != sha256:
                raise SoundUnavailable("The file has changed since it was captioned.")
        for piece in open_recording(file, SAMPLE_RATE, window_s=longest_s, cuts=cuts).pieces():
            yield piece.samples
    except AudioError as error:
        raise SoundUnavailable(error.message) from error


def envelope(samples: Samples) -> tuple[int, ...]:
    """Lowest and highest of the samples in each of at most `COLUMNS` columns, in turn, the peak scaled to 127."""
    columns = min(COLUMNS, len(samples))
    edges = np.linspace(0, len(samples), columns + 1).astype(np.intp)[:-1]
    lows, highs = np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)
    peak = max(float(np.abs(samples).max()), 1e-9)
    return tuple(int(step) for step in np.round(np.stack([lows, highs], axis=1).ravel() / peak * _FULL))


def aligned_contour(samples: Samples) -> npt.NDArray[np.float64]:
    """F0 in Hz of mono samples [n] at 16 kHz, one value for every whole 10 ms from 0 on, NaN where unvoiced."""
    return f0_contour(np.pad(samples, LEAD))[: len(samples) // HOP]


def pitch_columns(contour: npt.NDArray[np.float64], length: int) -> tuple[float | None, ...]:
    """A contour of 10 ms frames, each centred where it begins, as at most `COLUMNS` columns over `length` samples."""
    columns = min(COLUMNS, max(1, length // HOP))
    edges = np.arange(1, columns) * length / (columns * HOP)
    curve: list[float | None] = []
    for frames in np.split(contour, np.ceil(edges).astype(np.intp)):
        voiced = frames[~np.isnan(frames)]
        curve.append(round(float(np.median(voiced)), 1) if len(voiced) and 2 * len(voiced) >= len(frames) else None)
    return tuple(curve)


def mp3(samples: Samples) -> bytes:
    """Mono samples at 16 kHz as MP3."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp3") as container:
        stream: Any = container.add_stream("libmp3lame", rate=SAMPLE_RATE, layout="mono", bit_rate=BIT_RATE)
        frame = av.AudioFrame.from_ndarray(np.clip(samples, -1.0, 1.0)[None, :], format="fltp", layout="mono")
        frame.sample_rate, frame.time_base = SAMPLE_RATE, Fraction(1, SAMPLE_RATE)
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return buffer.getvalue()
