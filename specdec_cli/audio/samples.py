"""Samples as they are decoded and in memory, and the pieces of a recording that they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_cli.errors import AudioContentError

Floats = NDArray[np.float32]

MAX_DURATION_S: Final = 6 * 3600.0
BLOCK_SAMPLES: Final = 1 << 18
STREAMED: Final = 0x7FFFF000  # writers into a pipe declare 0, 0x7fffffff less a header, 0x80000000 or 0xffffffff bytes


@dataclass(slots=True)
class Source:
    """A recording that a library has opened."""

    rate: int  # Hz
    channels: int
    blocks: Iterator[Floats]  # [frames, channels], full scale 1.0
    at: int = 0  # frames from the start of the file's clock to the next block
    origin_s: float = 0.0  # where on that clock its sound begins
    declared_s: float | None = None  # end of the sound as the header gives it; None: it does not
    longest_s: float = 0.0  # its length before it is read; 0: unknown
    faults: list[str] = field(default_factory=list)  # what decoders report as damaged
    notes: list[str] = field(default_factory=list)  # what else to report
    unread_s: Callable[[float], float] = lambda _: 0.0  # sound that the file may hold behind what was read, seconds
    searched: bool = False  # whether all of the file is looked through for sound, up to its end


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a piece of a recording begins and ends, seconds, and what is known of it."""

    start_s: float
    end_s: float
    speaker: str | None = None
    text: str | None = None
    place: str | None = None  # where it is written, for messages: "cuts.rttm, line 3"
    channel: int | None = None  # of the recording, 0-based, that it is taken from; None: as the settings say


@dataclass(frozen=True, slots=True, eq=False)
class AudioPiece(Cut):
    """A piece of a recording, or all of it, with its sound."""

    samples: Floats = field(kw_only=True)  # mono [n]
    index: int = 0  # 0-based, of the pieces of the recording
    fault: AudioContentError | None = None  # why it gets no caption; a whole recording is refused instead


def piece_of(file: object, start_s: float, end_s: float) -> str:
    """How errors name a piece of a recording."""
    return f"{file} from {start_s:.2f} s to {end_s:.2f} s"


def mono(samples: ArrayLike, name: str) -> Floats:
    """Floats of full scale 1.0, or integers of 8 (unsigned), 16 or 32 bits, as float32 [n] of full scale 1.0.

    Raises AudioContentError for any other shape or type.
    """
    try:
        array = np.asarray(samples)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: PyTorch's
        raise AudioContentError(f"{name} cannot be read as an array: {error}") from error
    integer = array.dtype in (np.uint8, np.int16, np.int32)
    if array.ndim != 1 or not (integer or array.dtype.kind == "f"):
        raise AudioContentError(
            f"{name} has the type {array.dtype} and the shape {array.shape}; mono samples [n] are needed, as floats or "
            "integers of 8 (unsigned), 16 or 32 bits",
            hint="Mix its channels: samples.mean(axis=1) of [n, channels], samples.mean(axis=0) of [channels, n].",
        )
    if integer:
        full_scale = 2.0 ** (8 * array.itemsize - 1)
        array = array.astype(np.float64) / full_scale - (array.dtype == np.uint8)
    return np.ascontiguousarray(array, dtype=np.float32)
