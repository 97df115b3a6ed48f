"""Samples while they are decoded and in memory, and the cuts and pieces of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_cli.errors import AudioContentError

Floats = NDArray[np.float32]

MAX_DURATION_S: Final = 6 * 3600.0
MISSING_S: Final = 0.5  # least missing sound that is reported; less is rounding or padding
CHUNK_SAMPLES: Final = 1 << 18
STREAMED: Final = 0x7FFFF000
"""Sizes from here on declare nothing: writers into a pipe write 0x7fffffff less a header, 0x80000000 or 0xffffffff."""


@dataclass(slots=True)
class OpenedFile:
    """The sound of a file that a library has opened, before it is read."""

    rate: int  # Hz
    channels: int
    chunks: Iterator[Floats]  # [frames, channels], full scale 1.0
    at: int = 0  # frames from the start of the file's clock to the next chunk
    origin_s: float = 0.0  # where on that clock the sound begins
    low: frozenset[int] = frozenset()  # channels for low frequencies (LFE), 0-based
    declared_s: float | None = None  # end of the sound by the header; None: not declared
    promised: float = 1.0  # length of the file by its header / its length
    longest_s: float = 0.0  # length, if it is known before it is read; else 0
    faults: list[str] = field(default_factory=list)  # damage that decoders report
    suspected: list[str] = field(default_factory=list)  # damage that another decoder reports of the same file
    notes: list[str] = field(default_factory=list)  # further things to report
    after_s: Callable[[float], float] = lambda _: 0.0  # seconds read -> seconds of sound that may follow in the file

    def missing(self, read_s: float | None) -> Iterator[str]:
        """Yields sentences on damage, and on sound that the header declares and that was not read.

        `read_s` is the end of the sound that decodes, seconds; None: it was not read to its end.
        """
        ends, after_s = list[str](), 0.0
        if read_s is not None:
            declared_s, after_s = max(self.declared_s or 0.0, read_s * self.promised), self.after_s(read_s)
            ends = [f"it ends after {read_s:.1f} of {declared_s:.1f} s"] * (declared_s - read_s > MISSING_S)
        if says := [*self.faults, *ends] or self.suspected:
            yield f"is damaged or cut short: {'; '.join(says)}; what decodes is captioned"
        elif after_s > MISSING_S:
            yield f"has a header that counts {read_s:.3g} s; about {after_s:.1f} s more may follow, which are left out"


@dataclass(frozen=True, slots=True)
class Cut:
    """The begin and end of a piece of a recording, seconds, and what is known of it."""

    start_s: float
    end_s: float
    speaker: str | None = None
    text: str | None = None
    place: str | None = None  # of the cut in its file, for messages: "cuts.rttm, line 3"
    channel: int | None = None  # channel of the recording, 0-based; None: as the settings say


@dataclass(frozen=True, slots=True, eq=False)
class AudioPiece(Cut):
    """A piece of a recording, or the whole of it, with its samples."""

    samples: Floats = field(kw_only=True)  # mono [n]
    index: int = 0  # 0-based, of the pieces of the recording
    fault: AudioContentError | None = None  # why it cannot be captioned; for a whole recording it is raised instead


def piece_of(file: object, start_s: float, end_s: float) -> str:
    """The name of a piece of a recording in errors."""
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
