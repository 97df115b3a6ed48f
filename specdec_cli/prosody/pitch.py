"""F0 by autocorrelation with a best path (Boersma 1993, with Praat's default costs).

Of 360 clips of six corpora the median F0 is within 3% of Praat's in 98%; librosa's pYIN is in 60%, its YIN in 73%, for
they take other frames for voiced. docs/measured.md has the figures.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

SAMPLE_RATE: Final = 16_000
"""Rate that the tracker works at, Hz."""
HOP: Final = SAMPLE_RATE // 100
"""Samples between two values: 10 ms."""
F0_RANGE_HZ: Final = (65.0, 600.0)
VOICING_THRESHOLD: Final = 0.45
SILENCE_THRESHOLD: Final = 0.03
OCTAVE_COST: Final = 0.01
OCTAVE_JUMP_COST: Final = 0.35
VOICING_CHANGE_COST: Final = 0.14
CANDIDATES: Final = 6
LEAST_VOICED: Final = 10
"""Frames without which there is neither a median nor a range."""
_WIDTH: Final = int(0.046 * SAMPLE_RATE)  # three periods of the lowest F0
LEAD: Final = _WIDTH // 2
"""Samples before the centre of the first frame."""
_FFT_SIZE: Final = 2048
_FRAMES_AT_ONCE: Final = 1024  # spectra of a five-minute recording would take a gigabyte
Array = npt.NDArray[np.float64]


def f0_track(samples: npt.NDArray[np.float32]) -> Array:
    """F0 in Hz of the voiced frames of mono samples [n] at 16 kHz, from 46 ms windows every 10 ms."""
    contour = f0_contour(samples)
    return contour[~np.isnan(contour)]


def f0_contour(samples: npt.NDArray[np.float32], hop: int = HOP) -> Array:
    """F0 in Hz of every frame, NaN where unvoiced, of mono samples [n] at 16 kHz.

    Frames are `hop` samples apart, 10 ms unless told. Frame i is centred at i hops + 23 ms; there is none in less than
    46 ms.
    """
    if len(samples) <= _WIDTH:
        return np.zeros(0)
    starts = np.arange(0, len(samples) - _WIDTH, hop)
    parts = [_candidates(samples, starts[at : at + _FRAMES_AT_ONCE]) for at in range(0, len(starts), _FRAMES_AT_ONCE)]
    strength, octaves, peaks = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    return _best_path(strength, octaves, peaks / max(float(peaks.max()), 1e-9), HOP / hop)


def f0_median_and_range(track: Array) -> tuple[float, float] | None:
    """Median in Hz and 10th-90th percentile distance in semitones; None with fewer than 10 voiced frames."""
    if len(track) < LEAST_VOICED:
        return None
    low, middle, high = np.percentile(track, [10, 50, 90])
    return float(middle), 12.0 * float(np.log2(high / low))


def _candidates(samples: npt.NDArray[np.float32], starts: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
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
    cost = OCTAVE_COST * np.log2(F0_RANGE_HZ[1] * lags[1:-1] / SAMPLE_RATE)
    scored = np.where(is_peak, here - cost, -1.0)
    best = np.argpartition(-scored, CANDIDATES, axis=1)[:, :CANDIDATES]
    left, top, right, scored = (np.take_along_axis(values, best, axis=1) for values in (before, here, after, scored))
    real = scored > -1.0
    shift = np.where(real, 0.5 * (left - right) / np.where(real, left - 2 * top + right, 1.0), 0.0)  # to the parabola's
    strength = np.where(real, np.minimum(top - 0.25 * (left - right) * shift, 1.0) - cost[best], -1.0)
    return strength, np.log2(SAMPLE_RATE / (lags[1:-1][best] + shift)), np.abs(frames).max(axis=1)


def _best_path(voiced: Array, octaves: Array, loudness: Array, steepness: float) -> Array:
    """Viterbi over the candidates (frames, candidates) and an unvoiced state; F0 in Hz or NaN.

    A change costs `steepness` times as much as between frames 10 ms apart.
    """
    unvoiced = VOICING_THRESHOLD + np.maximum(0.0, 2.0 - loudness / (SILENCE_THRESHOLD / (1.0 + VOICING_THRESHOLD)))
    local = np.concatenate([unvoiced[:, None], voiced], axis=1)
    position = np.concatenate([np.zeros((len(octaves), 1)), octaves], axis=1)
    is_voiced = np.arange(CANDIDATES + 1) > 0
    change = steepness * VOICING_CHANGE_COST * (is_voiced[:, None] != is_voiced[None])
    both = is_voiced[:, None] & is_voiced[None]
    total, back = local[0], np.zeros(local.shape, dtype=np.int8)
    for frame in range(1, len(local)):
        jump = steepness * OCTAVE_JUMP_COST * np.abs(position[frame][:, None] - position[frame - 1][None])
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
