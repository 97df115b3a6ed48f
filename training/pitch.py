"""F0 tracking by autocorrelation with a best path (Boersma 1993, with Praat's default costs)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

SAMPLE_RATE: Final = 16_000
"""Rate that the tracker works at, Hz."""
FRAME: Final = SAMPLE_RATE // 100
"""Samples between two values: 10 ms."""
F0_RANGE_HZ: Final = (65.0, 600.0)
VOICING_THRESHOLD: Final = 0.45
SILENCE_THRESHOLD: Final = 0.03
OCTAVE_COST: Final = 0.01
OCTAVE_JUMP_COST: Final = 0.35
VOICING_CHANGE_COST: Final = 0.14
CANDIDATES: Final = 6
_WIDTH: Final = int(0.046 * SAMPLE_RATE)
_FFT_SIZE: Final = 2048
_FRAMES_AT_ONCE: Final = 1024  # spectra of a five-minute recording would take a gigabyte
Array = npt.NDArray[np.float64]


def f0_track(waveform: npt.NDArray[np.float32]) -> Array:
    """F0 in Hz of the voiced frames of mono samples [n] at 16 kHz, from 46 ms windows every 10 ms."""
    contour = f0_contour(waveform)
    return contour[~np.isnan(contour)]


def f0_contour(waveform: npt.NDArray[np.float32], hop: int = FRAME) -> Array:
    """F0 in Hz of every frame, NaN where unvoiced, of mono samples [n] at 16 kHz.

    Frames are `hop` samples apart, 10 ms unless told. Frame i is centred at i hops + 23 ms; there is none in less than
    46 ms.
    """
    if len(waveform) <= _WIDTH:
        return np.zeros(0)
    starts = np.arange(0, len(waveform) - _WIDTH, hop)
    lags = np.arange(int(SAMPLE_RATE / F0_RANGE_HZ[1]), int(SAMPLE_RATE / F0_RANGE_HZ[0]))
    parts = [
        _strength(waveform, starts[at : at + _FRAMES_AT_ONCE], lags) for at in range(0, len(starts), _FRAMES_AT_ONCE)
    ]
    strength = np.concatenate([part for part, _ in parts])
    peaks = np.concatenate([part for _, part in parts])
    return _best_path(strength, SAMPLE_RATE / lags, peaks / max(float(peaks.max()), 1e-9), FRAME / hop)


def _strength(
    waveform: npt.NDArray[np.float32], starts: npt.NDArray[np.intp], lags: npt.NDArray[np.intp]
) -> tuple[Array, Array]:
    """Normalised autocorrelation (frames, lags), the window's own divided out, and each frame's peak amplitude."""
    window = np.hanning(_WIDTH)
    frames = waveform[starts[:, None] + np.arange(_WIDTH)].astype(np.float64)
    frames = (frames - frames.mean(axis=1, keepdims=True)) * window
    correlation = np.fft.irfft(np.square(np.abs(np.fft.rfft(frames, n=_FFT_SIZE))), n=_FFT_SIZE)
    shape = np.fft.irfft(np.square(np.abs(np.fft.rfft(window, n=_FFT_SIZE))), n=_FFT_SIZE)
    strength = correlation[:, lags] / np.maximum(correlation[:, :1], 1e-12) / (shape[lags] / shape[0])
    return strength, np.abs(frames).max(axis=1)


def _best_path(strength: Array, frequencies: Array, loudness: Array, steepness: float) -> Array:
    """Viterbi over the strongest local maxima of `strength` (frames, lags) and an unvoiced state; F0 in Hz or NaN.

    A change costs `steepness` times as much as between frames 10 ms apart.
    """
    inner = strength[:, 1:-1]
    is_peak = (inner >= strength[:, :-2]) & (inner > strength[:, 2:])
    octaves = np.log2(frequencies)
    scored = np.where(is_peak, inner + OCTAVE_COST * (octaves[1:-1] - octaves[-1]), -1.0)
    order = np.argsort(-scored, axis=1)[:, :CANDIDATES]
    voiced = np.take_along_axis(scored, order, axis=1)
    unvoiced = VOICING_THRESHOLD + np.maximum(0.0, 2.0 - loudness / (SILENCE_THRESHOLD / (1.0 + VOICING_THRESHOLD)))
    local = np.concatenate([unvoiced[:, None], voiced], axis=1)
    position = np.concatenate([np.zeros((len(order), 1)), octaves[1:-1][order]], axis=1)
    is_voiced = np.arange(CANDIDATES + 1) > 0
    change = steepness * VOICING_CHANGE_COST * (is_voiced[:, None] != is_voiced[None])
    both = is_voiced[:, None] & is_voiced[None]
    total, back = local[0], np.zeros(local.shape, dtype=np.intp)
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


def f0_median_and_range(track: Array) -> tuple[float, float] | None:
    """Median in Hz and 10th-90th percentile distance in semitones; None with fewer than 10 voiced frames."""
    if len(track) < 10:
        return None
    low, middle, high = np.percentile(track, [10, 50, 90])
    return float(middle), 12.0 * float(np.log2(high / low))
