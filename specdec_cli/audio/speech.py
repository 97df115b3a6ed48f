"""Decides whether a recording holds speech, by figures of how its level and spectrum change.

Speech alternates between voiced sounds, noises and short pauses several times a second. So its level, its spectral
flatness, its harmonicity and the shape of its spectrum vary, each within a known range; its level rises about as often
as it falls, and its pitch glides. A logistic model of eleven such figures and their squares separates speech from
tones, hum, noise, impulses and music, in the band of a telephone.

`python -m training.fit_speech_check` fits it to synthetic sounds and acted speech, and counts: 1,988 of 2,000 other
sounds are marked as no speech, 3 of all 10,548 clips of speech, and one of 3,000 of those with noise, echo or the band
of a telephone. A clip of 4.6 s takes 1 to 3 ms on one core.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import soxr
from numpy.typing import NDArray

from specdec_cli.audio.levels import active
from specdec_cli.audio.samples import Floats

Numbers = NDArray[Any]

MIN_ACTIVE_S: Final = 0.3  # a clip with less active sound has no speech
_RATE: Final = 8000  # Hz; clips are resampled to it
_HOP, _FRAME = 160, 256  # samples: 20 and 32 ms
_FFT_SIZE: Final = _FRAME + _FRAME // 2  # room for the longest lag
_PIECE_S: Final = 10.0  # in the figures of a longer clip, speech would be averaged away
_BANDS_HZ: Final = np.geomspace(100, 3600, 13)
_LAGS: Final = slice(_RATE // 400, round(_RATE / 70) + 1)  # of pitches from 70 to 400 Hz
_VOICED: Final = 0.6  # harmonicity
_GLIDE: Final = 0.05  # octaves in 20 ms
_BIAS: Final = 21.23
_MODEL: Final = np.array(
    [  # least, most, mean, spread, weight of the figure and of its square, in the order of `figures`
        (-1.77, 15.79, 7.679, 1.563, 1.288, -0.9466),
        (-7.527, 0.3404, -3.763, 0.5887, -1.093, -0.6138),
        (-0.423, 3.3, 1.103, 0.2952, -0.9305, -0.006525),
        (0.01319, 0.4086, 0.1972, 0.02781, 0.3804, 0.02547),
        (-2.503, 23.94, 8.942, 2.119, -0.3777, -0.4435),
        (0.5683, 7.84, 3.409, 0.4402, 0.3919, -0.1533),
        (-0.9784, 15.7, 6.059, 1.413, 1.437, -0.03111),
        (-0.7254, 6.79, 2.467, 0.7924, -0.6703, -0.4515),
        (-0.7974, 5.364, 2.327, 0.6688, -0.5982, 0.06961),
        (0.1707, 0.7123, 0.4458, 0.04481, 0.8149, -0.5096),
        (-0.374, 1.322, 0.4578, 0.1458, -0.6139, -0.3609),
    ]
)


def has_speech(samples: Floats, sampling_rate: int) -> bool:
    """Whether any ten seconds of a clip, mono [n] of any level at 8,000 Hz or more, sound like speech."""
    found = (figures(piece, sampling_rate) for piece in in_pieces(samples, sampling_rate))
    columns, weights = _MODEL[:, :4].T, _MODEL[:, 4:].T.ravel()
    return any(_BIAS + terms(piece, *columns) @ weights > 0 for piece in found if piece is not None)


def in_pieces(samples: Floats, sampling_rate: int) -> list[Floats]:
    """A clip in equal pieces of ten seconds or less."""
    return np.array_split(samples, max(1, -(-len(samples) // round(_PIECE_S * sampling_rate))))


def terms(found: Numbers, least: Numbers, most: Numbers, mean: Numbers, spread: Numbers) -> Numbers:
    """Terms of the logistic model [..., 22]: figures [..., 11], clipped and standardised, then their squares."""
    scaled = (np.clip(found, least, most) - mean) / spread
    return np.concatenate([scaled, scaled**2], axis=-1)


def figures(samples: Floats, sampling_rate: int) -> Numbers | None:
    """The eleven figures of the active frames, float64 [11]; None for less than 0.3 s of them."""
    samples = soxr.resample(samples, sampling_rate, _RATE)
    padded = np.pad(samples, (0, max(0, _FRAME - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[::_HOP] / max(1e-9, float(np.abs(padded).max()))
    frames -= frames.mean(axis=1, keepdims=True)
    loudness = np.einsum("ft,ft->f", frames, frames) / _FRAME
    found = active(loudness)
    if np.count_nonzero(found) * _HOP < MIN_ACTIVE_S * _RATE:
        return None
    level = 10 * np.log10(loudness[found])
    window = np.hanning(_FRAME).astype(np.float32)
    spectrum = np.fft.rfft(frames[found] * window, _FFT_SIZE)
    power = spectrum.real**2 + spectrum.imag**2
    harmonicity, pitch = _periodicity(power, np.abs(np.fft.rfft(window, _FFT_SIZE)) ** 2)
    edges = np.searchsorted(np.fft.rfftfreq(_FFT_SIZE, 1 / _RATE), _BANDS_HZ)
    audible = power[:, edges[0] : edges[-1]]
    audible += 1e-6 * audible.mean(axis=1).max() + np.float32(1e-20)
    flatness = np.log(audible).mean(axis=1) - np.log(audible.mean(axis=1))
    bands = 10 * np.log10(np.add.reduceat(audible, edges[:-1] - edges[0], axis=1) / np.diff(edges))
    shape = bands - bands.mean(axis=1, keepdims=True)
    before, after = _pairs(found, frames=1)
    steps = level[after] - level[before]
    voiced = (harmonicity[before] > _VOICED) & (harmonicity[after] > _VOICED)
    earlier, later = _pairs(found, frames=5)
    return np.array(
        [
            level.std(),  # dB
            flatness.mean(),  # natural logarithm of the ratio of geometric to arithmetic mean power
            flatness.std(),
            harmonicity.std(),  # largest autocorrelation at a pitch of 70 to 400 Hz
            (bands[:, :6].max(axis=1) - bands[:, 8:].max(axis=1)).std(),  # spectral tilt, dB
            _mean(np.abs(shape[after] - shape[before])),  # change of the spectrum's shape in 20 ms, dB
            _mean(np.abs(shape[later] - shape[earlier])),  # and in 100 ms
            _mean(np.abs(steps)),  # change of the level in 20 ms, dB
            np.log(_mean(steps**2) + 0.01),
            _mean(steps > 0),  # share of the frames whose level rises
            _mean(np.abs(pitch[after] - pitch[before])[voiced] < _GLIDE, 1.0),  # share of the voiced frames
        ],
        dtype=np.float64,
    )


def _periodicity(power: Numbers, of_window: Numbers) -> tuple[Numbers, Numbers]:
    """Harmonicity and pitch period of frames, from power spectra [frames, bins].

    Returns [frames] each: the largest normalised autocorrelation at a lag of speech, 0 to 1, and that lag, octaves.
    """
    whole, found = np.fft.irfft(of_window), np.fft.irfft(power)
    relative = found[:, _LAGS] / (found[:, :1] + np.float32(1e-20)) * (whole[0] / whole[_LAGS])
    return relative.max(axis=1).clip(0, 1), np.log2(relative.argmax(axis=1) + _LAGS.start)


def _pairs(found: Numbers, frames: int) -> tuple[Numbers, Numbers]:
    """Pairs of active frames that are `frames` frames apart, as indices among the active frames `found`."""
    row, both = np.cumsum(found) - 1, found[frames:] & found[:-frames]
    return row[:-frames][both], row[frames:][both]


def _mean(values: Numbers, otherwise: float = 0.0) -> float:
    return float(np.mean(values)) if values.size else otherwise
