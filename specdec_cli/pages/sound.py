"""The sound of a recording for pages: compressed audio, the envelope of its waveform, its pitch curve."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile

from specdec_cli.audio import AudioPiece, Cut, open_recording
from specdec_cli.audio.paths import opened
from specdec_cli.audio.paths import sha256 as digest_of
from specdec_cli.audio.pieces import Channel
from specdec_cli.audio.prosody import HOP, LEAD, SAMPLE_RATE, f0_contour, measure
from specdec_cli.errors import AudioError
from specdec_cli.format import measured
from specdec_cli.times import seconds
from specdec_cli.types import Measured

COLUMNS: Final = 400  # most points of an envelope and of a pitch curve
BIT_RATE: Final = 48_000  # of the MP3, which every browser plays, bit/s
PAGE_BYTES_A_SECOND: Final = BIT_RATE / 8 * 4 / 3  # of the MP3 in base64
AUDIO_MB: Final = 64.0  # of the audio of a page, unless told otherwise

Samples = npt.NDArray[np.float32]


class ClipSound(NamedTuple):
    """A clip to see and hear."""

    drawing: dict[str, Any]  # what the page's script draws
    figures: Measured
    mp3: bytes


class SoundUnavailable(Exception):
    """The recording cannot be shown; the message says why."""


def clip_sound(samples: Samples, *, played: bool = True) -> ClipSound:
    """The sound of a clip, mono samples at 16 kHz; without MP3 if it is not `played`."""
    found = measure(samples, SAMPLE_RATE)
    length_s = len(samples) / SAMPLE_RATE
    peak_db = 20 * math.log10(max(float(np.abs(samples).max()), 1e-9))
    drawing = {
        "envelope": envelope(samples),
        "pitch": pitch_columns(samples),
        "median": found.f0_median_hz,
        "facts": ", ".join([seconds(length_s), f"peak {peak_db:.1f} dBFS", *measured(found)]),
        "seconds": round(length_s, 3),
    }
    return ClipSound(drawing, found, mp3(samples) if played else b"")


def pieces_of(
    file: str,
    sha256: str,
    spans: Sequence[tuple[float, float]] | None,
    channel: int | None = None,
    track: int | None = None,
) -> Iterator[AudioPiece]:
    """Pieces of a recording of any length, one in memory at a time: float32 mono [n] at 16 kHz.

    `spans` are their starts and ends, seconds, sorted; None: all of it as one piece.

    Raises:
        SoundUnavailable: the file is gone, cannot be read, or is not the one that was captioned.
    """
    cuts = None if spans is None else [Cut(start, end, place="the transcript") for start, end in spans]
    longest_s = math.inf if spans is None else max(end - start for start, end in spans)
    try:
        with opened(file) as content:
            if digest_of(content) != sha256:
                raise SoundUnavailable("The file has changed since it was captioned.")
        chosen: Channel = "mix" if channel is None else channel
        yield from open_recording(
            file, SAMPLE_RATE, window_s=longest_s, cuts=cuts, channel=chosen, track=track
        ).pieces()
    except AudioError as error:
        raise SoundUnavailable(error.message) from error


def envelope(samples: Samples) -> tuple[int, ...]:
    """Lowest and highest of the samples in each of at most `COLUMNS` columns, in turn, the peak scaled to 127."""
    edges = np.linspace(0, len(samples), min(COLUMNS, len(samples)), endpoint=False).astype(np.intp)
    steps = np.stack([np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)], axis=1).ravel()
    return tuple(int(step) for step in np.round(127 * steps / max(float(np.abs(samples).max()), 1e-9)))


def pitch_columns(samples: Samples) -> tuple[float | None, ...]:
    """F0 in Hz of mono samples at 16 kHz in at most `COLUMNS` columns; None where less than half of one is voiced."""
    contour = f0_contour(np.pad(samples, LEAD))[: len(samples) // HOP]  # frames of 10 ms, centred where they begin
    columns = min(COLUMNS, max(1, len(samples) // HOP))
    edges = np.ceil(np.arange(1, columns) * len(samples) / (columns * HOP)).astype(np.intp)
    curve: list[float | None] = []
    for frames in np.split(contour, edges):
        voiced = frames[~np.isnan(frames)]
        curve.append(round(float(np.median(voiced)), 1) if len(voiced) and 2 * len(voiced) >= len(frames) else None)
    return tuple(curve)


def mp3(samples: Samples) -> bytes:
    """Mono samples at 16 kHz as MP3 of `BIT_RATE`: at 16 kHz, that is libsndfile's compression level 0.74."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE, format="MP3", bitrate_mode="CONSTANT", compression_level=0.74)
    return buffer.getvalue()
