"""Prosody as numbers: F0, level, rate and pauses of samples, by the definitions that the mini pair's labels have.

F0: autocorrelation with a best path (Boersma 1993, with Praat's default costs).
Rate: syllable nuclei, which are peaks of the level with a dip on either side, and voiced (de Jong and Wempe 2009). The
level is that between 500 and 2,500 Hz: the first formants of vowels, without the pulses of a low voice and the noise of
fricatives. docs/acoustics.md says how well either agrees with Praat, and with texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import soxr

from specdec_cli.audio.levels import ACTIVE_WITHIN_DB, FLOOR_DBFS, Mask, active, runs_of
from specdec_cli.types import Measured

SAMPLE_RATE: Final = 16_000  # of all samples here, Hz
HOP: Final = SAMPLE_RATE // 100  # samples in a frame, and between two values: 10 ms

_SHORTEST_BLIP: Final = 4  # frames: active runs under 40 ms are dropped
_SHORTEST_PAUSE: Final = 20  # frames: gaps of 200 ms or more are pauses
_LIMIT_CHANGE_DB: Final = 3.0
_MOST_CHANGE: Final = 0.15  # a share of pauses that changes by more with a limit so much higher or lower is none
_LEAST_SPEAKING_S: Final = 0.3  # a rate over less speech than this would say nothing

F0_RANGE_HZ: Final = (65.0, 600.0)
_VOICING_THRESHOLD: Final = 0.45
_SILENCE_THRESHOLD: Final = 0.03
_OCTAVE_COST: Final = 0.01
_OCTAVE_JUMP_COST: Final = 0.35
_VOICING_CHANGE_COST: Final = 0.14
_CANDIDATES: Final = 6
_LEAST_VOICED: Final = 10  # frames without which there is neither a median nor a range
_WIDTH: Final = int(0.046 * SAMPLE_RATE)  # three periods of the lowest F0
LEAD: Final = _WIDTH // 2  # samples before the centre of the first frame
_FFT_SIZE: Final = 2048
_FRAMES_AT_ONCE: Final = 1024  # spectra of a five-minute recording would take a gigabyte

_BAND_HZ: Final = (500.0, 2500.0)
_DIP_DB: Final = 3.0  # a peak stands out from the dips beside it by so much,
_WITHIN_DB: Final = 25.0  # and is no further below the 99th percentile of the level
_BAND_WIDTH: Final = 1024  # 64 ms: shorter windows follow the pulses of a voice

Array = npt.NDArray[np.float64]
Samples = npt.NDArray[np.float32]


def measure(samples: Samples, sampling_rate: int, recording_dbfs: float | None = None) -> Measured:
    """The figures of a clip; see `Measured` for their definitions.

    Args:
        samples: mono [n] of full scale 1.0.
        sampling_rate: of the samples, Hz.
        recording_dbfs: level of the active frames of the recording that it is a piece of; None: it is a whole one.
    """
    if sampling_rate != SAMPLE_RATE:
        samples = soxr.resample(samples, sampling_rate, SAMPLE_RATE)
    activity, contour = speech_activity(samples), f0_contour(samples)
    if not activity.active.any():
        return Measured()
    pitch = f0_median_and_range(contour)
    rate = None
    if pitch is not None and activity.speaking_s >= _LEAST_SPEAKING_S:
        rate = round(syllable_nuclei(samples, contour) / activity.speaking_s, 2)
    return Measured(
        f0_median_hz=round(pitch[0], 1) if pitch else None,
        f0_range_st=round(pitch[1], 2) if pitch else None,
        level_dbfs=round(activity.level_dbfs, 1),
        level_relative_db=None if recording_dbfs is None else round(activity.level_dbfs - recording_dbfs, 1),
        rate_per_s=rate,
        pause_share=round(activity.pause_ratio, 3) if activity.pauses_are_clear else None,
    )


@dataclass(frozen=True)
class Activity:
    """Speech activity of a clip. `active`: bool, one value per 10 ms frame."""

    active: Mask
    level_dbfs: float
    pause_ratio: float
    pauses_are_clear: bool = True  # False: noise lies at the limit, so that 3 dB more or less give other pauses

    @property
    def speaking_s(self) -> float:
        """Active time in seconds, without pauses."""
        return float(self.active.sum()) / 100.0


def speech_activity(samples: Samples) -> Activity:
    """Frames within 30 dB of the 97th percentile frame and above -75 dBFS, blips under 40 ms dropped.

    Args:
        samples: mono [n] at 16 kHz; a constant offset is no sound.
    """
    frames = samples[: len(samples) // HOP * HOP].reshape(-1, HOP).astype(np.float64)
    power = np.square(frames - frames.mean()).mean(axis=1) if len(frames) else np.zeros(1)
    changes = (0.0, -_LIMIT_CHANGE_DB, _LIMIT_CHANGE_DB)
    (found, share), *others = (_active(power, ACTIVE_WITHIN_DB + change) for change in changes)
    level = 10.0 * float(np.log10(power[found].mean() + 1e-12)) if found.any() else FLOOR_DBFS
    return Activity(found, level, share, all(abs(other - share) <= _MOST_CHANGE for _, other in others))


def _active(power: npt.NDArray[np.floating], within_db: float) -> tuple[Mask, float]:
    """Active frames, and the share of pauses between the first and the last of them."""
    found = active(power, within_db)
    for start, stop in runs_of(found):
        if stop - start < _SHORTEST_BLIP:
            found[start:stop] = False
    if not found.any():
        return found, 0.0
    first, last = np.flatnonzero(found)[[0, -1]]
    span = found[first : last + 1]
    gaps = sum(stop - start for start, stop in runs_of(~span) if stop - start >= _SHORTEST_PAUSE)
    return found, float(gaps) / len(span)


def f0_contour(samples: Samples, hop: int = HOP) -> Array:
    """F0 in Hz of every frame of 46 ms, NaN where unvoiced, of mono samples [n] at 16 kHz.

    Frames are `hop` samples apart, 10 ms by default. Frame i is centred at i hops + 23 ms; there is none in less than
    46 ms.
    """
    if len(samples) <= _WIDTH:
        return np.zeros(0)
    starts = np.arange(0, len(samples) - _WIDTH, hop)
    parts = [_candidates(samples, starts[at : at + _FRAMES_AT_ONCE]) for at in range(0, len(starts), _FRAMES_AT_ONCE)]
    strength, octaves, peaks = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    return _best_path(strength, octaves, peaks / max(float(peaks.max()), 1e-9), HOP / hop)


def f0_median_and_range(contour: Array) -> tuple[float, float] | None:
    """Median in Hz and 10th-90th percentile distance in semitones; None with fewer than 10 voiced frames."""
    voiced = contour[~np.isnan(contour)]
    if len(voiced) < _LEAST_VOICED:
        return None
    low, middle, high = np.percentile(voiced, [10, 50, 90])
    return float(middle), 12.0 * float(np.log2(high / low))


def _candidates(samples: Samples, starts: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
    """The strongest local maxima of each frame's normalised autocorrelation, the window's own divided out.

    Returns:
        Strength less the octave cost (frames, candidates), -1 where there are fewer maxima; log2 of F0 in Hz, of the
        same shape; each frame's peak amplitude (frames,).
    """
    lags = np.arange(int(SAMPLE_RATE / F0_RANGE_HZ[1]), int(SAMPLE_RATE / F0_RANGE_HZ[0]) + 2)
    window = np.hanning(_WIDTH)
    frames = samples[starts[:, None] + np.arange(_WIDTH)].astype(np.float64)
    frames = (frames - frames.mean(axis=1, keepdims=True)) * window
    correlation = np.fft.irfft(np.square(np.abs(np.fft.rfft(frames, n=_FFT_SIZE))), n=_FFT_SIZE)
    shape = np.fft.irfft(np.square(np.abs(np.fft.rfft(window, n=_FFT_SIZE))), n=_FFT_SIZE)
    found = correlation[:, lags] / np.maximum(correlation[:, :1], 1e-12) / (shape[lags] / shape[0])
    before, here, after = found[:, :-2], found[:, 1:-1], found[:, 2:]
    is_peak = (here >= before) & (here > after)
    cost = _OCTAVE_COST * np.log2(F0_RANGE_HZ[1] * lags[1:-1] / SAMPLE_RATE)
    scored = np.where(is_peak, here - cost, -1.0)
    best = np.argpartition(-scored, _CANDIDATES, axis=1)[:, :_CANDIDATES]
    left, top, right, scored = (np.take_along_axis(values, best, axis=1) for values in (before, here, after, scored))
    real = scored > -1.0
    shift = np.where(real, 0.5 * (left - right) / np.where(real, left - 2 * top + right, 1.0), 0.0)  # to the parabola's
    strength = np.where(real, np.minimum(top - 0.25 * (left - right) * shift, 1.0) - cost[best], -1.0)
    return strength, np.log2(SAMPLE_RATE / (lags[1:-1][best] + shift)), np.abs(frames).max(axis=1)


def _best_path(voiced: Array, octaves: Array, loudness: Array, steepness: float) -> Array:
    """Viterbi over the candidates (frames, candidates) and an unvoiced state; F0 in Hz or NaN.

    A change costs `steepness` times as much as between frames 10 ms apart.
    """
    unvoiced = _VOICING_THRESHOLD + np.maximum(0.0, 2.0 - loudness / (_SILENCE_THRESHOLD / (1.0 + _VOICING_THRESHOLD)))
    local = np.concatenate([unvoiced[:, None], voiced], axis=1)
    position = np.concatenate([np.zeros((len(octaves), 1)), octaves], axis=1)
    is_voiced = np.arange(_CANDIDATES + 1) > 0
    change = steepness * _VOICING_CHANGE_COST * (is_voiced[:, None] != is_voiced[None])
    both = is_voiced[:, None] & is_voiced[None]
    total, back = local[0], np.zeros(local.shape, dtype=np.int8)
    for frame in range(1, len(local)):
        jump = steepness * _OCTAVE_JUMP_COST * np.abs(position[frame][:, None] - position[frame - 1][None])
        score = total[None] - np.where(both, jump, change)
        back[frame] = score.argmax(axis=1)
        total = score.max(axis=1) + local[frame]
    state = int(total.argmax())
    path = np.zeros(len(local), dtype=np.intp)
    for frame in range(len(local) - 1, -1, -1):
        path[frame] = state
        state = int(back[frame, state])
    chosen = position[np.arange(len(path)), path]
    return np.where(path > 0, np.exp2(chosen), np.nan)


def syllable_nuclei(samples: Samples, contour: Array) -> int:
    """Number of syllable nuclei: voiced peaks of the level within the band, taken every 10 ms from 0.

    Args:
        samples: mono [n] at 16 kHz.
        contour: their F0 every 10 ms, NaN where unvoiced, as `f0_contour` gives it.
    """
    import librosa
    from scipy.signal import find_peaks

    spectra = librosa.stft(samples, n_fft=_BAND_WIDTH, hop_length=HOP)
    low, high = np.searchsorted(librosa.fft_frequencies(sr=SAMPLE_RATE, n_fft=_BAND_WIDTH), _BAND_HZ)
    level = librosa.power_to_db(np.square(np.abs(spectra[low:high])).sum(axis=0), top_db=None)
    peaks, _ = find_peaks(level, prominence=_DIP_DB, height=np.percentile(level, 99) - _WITHIN_DB)
    voiced = np.zeros(len(level) + 2, dtype=np.bool_)
    first = 1 + round(LEAD / HOP)  # the level's first frame is centred at 0
    end = min(first + len(contour), len(voiced))
    voiced[first:end] = ~np.isnan(contour[: end - first])
    near = voiced[:-2] | voiced[1:-1] | voiced[2:]
    return int(near[peaks].sum())
