"""Samples in memory. Those that hold nothing to describe are refused: a model would invent a caption for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.prosody import active_level_dbfs
from specdec_cli.errors import AudioContentError

Floats = NDArray[np.float32]

MIN_DURATION_S: Final = 0.1  # of recordings that are accepted
MAX_DURATION_S: Final = 6 * 3600.0
SILENCE_DBFS: Final = -70.0  # of the loudest 20 ms of a silent one; 0: an RMS of 1.0
_MAX_PEAK: Final = 100.0  # 1.0 is full scale, and float files hold a little more at most


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a piece of a recording begins and ends, seconds, and what is known of it."""

    start_s: float
    end_s: float
    speaker: str | None = None
    text: str | None = None
    place: str | None = None  # what says so, for messages: "cuts.rttm, line 3"
    channel: int | None = None  # of the recording, 0-based, that it is taken from; None: as the settings say


@dataclass(frozen=True, slots=True, eq=False)
class Segment(Cut):
    """A piece of a recording, or all of it, with its sound."""

    samples: Floats = field(kw_only=True)  # mono [n]
    index: int = 0  # 0-based, of the pieces of the recording
    fault: AudioContentError | None = None  # why it gets no caption; a whole recording is refused instead


def piece_of(file: object, start_s: float, end_s: float) -> str:
    """How errors name a piece of a recording."""
    return f"{file} from {start_s:.2f} s to {end_s:.2f} s"


class SampleStatistics:
    """Peak and level of mono samples that arrive block by block; it keeps one number for every 20 ms."""

    def __init__(self, sampling_rate: int, samples: Floats | None = None) -> None:
        self.peak = 0.0  # largest magnitude; NaN or infinite if any sample is
        self._frame = max(1, round(0.020 * sampling_rate))
        self._powers = [np.zeros(0, np.float32)]
        self._rest = np.zeros(0, np.float32)
        if samples is not None:
            self.add(samples)

    def add(self, samples: Floats) -> None:
        """Count samples, float32 [n]."""
        self.peak = float(np.maximum(self.peak, np.abs(samples).max(initial=0.0)))  # np.maximum: NaN stays NaN
        joined = np.concatenate([self._rest, samples])
        whole = len(joined) // self._frame * self._frame
        self._rest = joined[whole:].copy()
        with np.errstate(all="ignore"):  # NaN and inf are refused by their peak
            self._powers.append(joined[:whole].reshape(-1, self._frame).var(axis=1))

    def level_dbfs(self) -> float | None:
        """Mean power of the active frames without their mean, in dB relative to an RMS of 1.0; None without any."""
        return active_level_dbfs(np.concatenate(self._powers))

    def fault(self, name: str, duration_s: float) -> AudioContentError | None:
        """What is wrong with samples in which there is nothing to describe; None if nothing is."""
        powers = np.concatenate(self._powers)
        inner = powers[1:-1] if len(powers) >= 5 else powers  # a resampled offset rings at the ends
        if duration_s < MIN_DURATION_S:
            says = f"is too short: it lasts {duration_s:.3f} s, and {MIN_DURATION_S} s is the least"
        elif not math.isfinite(self.peak):
            says = "holds samples that are not numbers (NaN or infinite)"
        elif self.peak > _MAX_PEAK:
            says = f"holds samples of up to {self.peak:.4g}, where full scale is 1.0"
        elif (loudest := float(inner.max(initial=0.0))) < 10 ** (SILENCE_DBFS / 10):
            level = 10 * math.log10(loudest) if loudest else -math.inf
            says = f"is silent (at {level:.0f} dBFS at most): a caption would be invented"
        else:
            return None
        hint = "Record it again, or export it as 16-bit PCM, with a few words that can be heard."
        return audio_error(AudioContentError, name, says, hint)


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
