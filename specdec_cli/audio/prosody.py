"""Prosody as numbers: F0, level, rate and pauses of samples, by the definitions of the mini pair's labels.

F0: autocorrelation with a best path (Boersma 1993, with Praat's default costs). Rate: syllable nuclei, which are voiced
peaks of the level with a dip on either side (de Jong and Wempe 2009). That level is taken between 500 and 2,500 Hz: the
first formants of vowels, without the pulses of a low voice and the noise of fricatives. docs/acoustics.md has the
errors against Praat and against texts.

One windowed spectrum of all frames serves both. SciPy's FFT computes it, in float32: NumPy's takes several times as
long, and librosa imports numba for any spectrum, which takes seconds. Tests compare the power with librosa's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import soxr
from numpy.lib.stride_tricks import sliding_window_view

from specdec_cli.audio.levels import ACTIVE_WITHIN_DB, FLOOR_DBFS, Mask, active, stretches_of
from specdec_cli.types import Measured

SAMPLE_RATE: Final = 16_000  # of all samples here, Hz
HOP: Final = SAMPLE_RATE // 100  # samples in a frame, and between two values: 10 ms

_SHORTEST_BLIP: Final = 4  # frames: active runs under 40 ms are dropped
_SHORTEST_PAUSE: Final = 20  # frames: gaps of 200 ms or more are pauses
_LIMIT_CHANGE_DB: Final = 3.0
_MOST_CHANGE: Final = 0.15  # most change of the share of pauses with a limit 3 dB higher or lower; else it is null
_LEAST_SPEAKING_S: Final = 0.3  # of speech for a rate
_LEAST_VOICED_SHARE: Final = 0.3  # of active frames for a rate: with less, noise is active, or hides syllables

F0_RANGE_HZ: Final = (65.0, 600.0)
_VOICING_THRESHOLD: Final = 0.45
_SILENCE_THRESHOLD: Final = 0.03
_OCTAVE_COST: Final = 0.01
_OCTAVE_JUMP_COST: Final = 0.35
_VOICING_CHANGE_COST: Final = 0.14
_CANDIDATES: Final = 6
_WEAKEST: Final = 0.1  # a candidate two voicing changes below the threshold (0.17) is never on the best path
_SILENT: Final = 1e-9  # least power of a frame, as the DCT scales it
_LEAST_VOICED: Final = 10  # frames for a median and a range
_NARROW_ST: Final = 6.0  # 5th to 95th percentile; a range of less has no room for frames an octave off
_LEAST_INNER_SHARE: Final = 0.4  # of that range, from the 15th to the 85th percentile; a normal distribution has 0.63
_WIDTH: Final = int(0.046 * SAMPLE_RATE)  # three periods of the lowest F0
LEAD: Final = _WIDTH // 2  # samples before the centre of the first frame
_FFT_SIZE: Final = 1000  # more than a frame and the longest lag together, so that nothing wraps around
_FRAMES_AT_ONCE: Final = 1024  # spectra of a five-minute recording would take a gigabyte

_BAND_HZ: Final = (500.0, 2500.0)
_SMOOTHING: Final = np.hanning(7) / 3.0  # over 60 ms; a shorter window would follow the pulses of a voice
_DIP_DB: Final = 2.5  # from a nucleus down to the dips beside it, at least
_WITHIN_DB: Final = 30.0  # from the 99th percentile of the level down to a nucleus, at most
_BAND_BINS: Final = slice(*(round(hz * _FFT_SIZE / SAMPLE_RATE) for hz in _BAND_HZ))

_WINDOW: Final = np.pad(np.hanning(_WIDTH), (0, _FFT_SIZE - _WIDTH)).astype(np.float32)
_LAGS: Final = np.arange(int(SAMPLE_RATE / F0_RANGE_HZ[1]), int(SAMPLE_RATE / F0_RANGE_HZ[0]) + 2)

Array = npt.NDArray[np.float64]
Samples = npt.NDArray[np.float32]


def measure(samples: Samples, sampling_rate: int, recording_dbfs: float | None = None) -> Measured:
    """The figures of a clip; see `Measured` for their definitions.

    Args:
        samples: mono [n] of full scale 1.0.
        sampling_rate: of the samples, Hz.
        recording_dbfs: level of the active frames of the whole recording, dBFS; None: the clip is a whole recording.
    """
    if sampling_rate != SAMPLE_RATE:
        samples = soxr.resample(samples, sampling_rate, SAMPLE_RATE)
    activity = speech_activity(samples)
    if not activity.active.any():
        return Measured()
    contour, band = _contour_and_band(samples)
    pitch = f0_median_and_range(contour)
    clear = pitch is not None and _range_is_clear(contour)
    rate = None
    voiced = float((~np.isnan(contour)).sum()) / activity.active.sum()
    if pitch is not None and activity.speaking_s >= _LEAST_SPEAKING_S and voiced >= _LEAST_VOICED_SHARE:
        rate = round(syllable_nuclei(contour, band) / activity.speaking_s, 2)
    return Measured(
        f0_median_hz=round(pitch[0], 1) if pitch else None,
        f0_range_st=round(pitch[1], 2) if pitch and clear else None,
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
    pause_ratio: float  # gaps of 200 ms or more / time from the first active frame to the last
    pauses_are_clear: bool = True  # False: noise is at the limit, and 3 dB more or less give other pauses

    @property
    def speaking_s(self) -> float:
        """Active time in seconds, without pauses."""
        return float(self.active.sum()) / 100.0


def speech_activity(samples: Samples) -> Activity:
    """The active frames: within 30 dB of the 97th percentile and above -75 dBFS, without blips under 40 ms.

    Args:
        samples: mono [n] at 16 kHz; a constant offset is ignored.
    """
    frames = samples[: len(samples) // HOP * HOP].reshape(-1, HOP)
    power = np.square(frames - np.float32(frames.mean(dtype=np.float64))).mean(axis=1) if len(frames) else np.zeros(1)
    changes = (0.0, -_LIMIT_CHANGE_DB, _LIMIT_CHANGE_DB)
    (found, share), *others = (_active(power, ACTIVE_WITHIN_DB + change) for change in changes)
    level = 10.0 * float(np.log10(power[found].mean() + 1e-12)) if found.any() else FLOOR_DBFS
    return Activity(found, level, share, all(abs(other - share) <= _MOST_CHANGE for _, other in others))


def _active(power: npt.NDArray[np.floating], within_db: float) -> tuple[Mask, float]:
    """Active frames, and the share of pauses between the first and the last of them."""
    found = active(power, within_db)
    stretches = stretches_of(found)
    lengths = stretches[:, 1] - stretches[:, 0]
    for start, stop in stretches[lengths < _SHORTEST_BLIP]:
        found[start:stop] = False
    stretches = stretches[lengths >= _SHORTEST_BLIP]
    if not len(stretches):
        return found, 0.0
    gaps = stretches[1:, 0] - stretches[:-1, 1]
    return found, float(gaps[gaps >= _SHORTEST_PAUSE].sum() / (stretches[-1, 1] - stretches[0, 0]))


def f0_contour(samples: Samples, hop: int = HOP) -> Array:
    """F0 in Hz of every frame of 46 ms, NaN if unvoiced, for mono samples [n] at 16 kHz.

    Frames are `hop` samples apart, 10 ms by default. Frame i is centred at i hops + 23 ms; less than
    46 ms have none.
    """
    return _contour_and_band(samples, hop)[0]


def _contour_and_band(samples: Samples, hop: int = HOP) -> tuple[Array, Samples]:
    """F0 as in `f0_contour`, and the power between 500 and 2,500 Hz of the same frames, in no fixed unit."""
    if len(samples) <= _WIDTH:
        return np.zeros(0), np.zeros(0, np.float32)
    starts = np.arange(0, len(samples) - _WIDTH, hop)
    padded = np.pad(samples, (0, _FFT_SIZE))
    parts = [_candidates(padded, starts[at : at + _FRAMES_AT_ONCE]) for at in range(0, len(starts), _FRAMES_AT_ONCE)]
    strength, octaves, peaks, band = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    return _best_path(strength, octaves, peaks / max(float(peaks.max()), 1e-9), HOP / hop), band


def f0_median_and_range(contour: Array) -> tuple[float, float] | None:
    """Median of F0, Hz, and its 10th to 90th percentile, semitones; None with fewer than 10 voiced frames."""
    voiced = contour[~np.isnan(contour)]
    if len(voiced) < _LEAST_VOICED:
        return None
    low, middle, high = np.percentile(voiced, [10, 50, 90])
    return float(middle), 12.0 * float(np.log2(high / low))


def _range_is_clear(contour: Array) -> bool:
    """Whether the 10th and 90th percentile of F0 do not depend on a few frames, such as those an octave off.

    If one frame in ten is an octave off, a range of 4 semitones is measured as one of 13, or the other way round.
    """
    low, inner_low, inner_high, high = 12.0 * np.log2(np.nanpercentile(contour, [5, 15, 85, 95]))
    return bool(high - low <= _NARROW_ST or inner_high - inner_low >= _LEAST_INNER_SHARE * (high - low))


def _candidates(samples: Samples, starts: npt.NDArray[np.intp]) -> tuple[Samples, Samples, Samples, Samples]:
    """Of frames that begin at `starts`: candidates as in `_strongest`, peak amplitudes, and powers in the band.

    The last two are float32 [frames]. `samples` [n] must go on for `_FFT_SIZE` after the last start.
    """
    from scipy import fft

    frames = sliding_window_view(samples, _FFT_SIZE)[starts]
    inner = frames[:, :_WIDTH]
    inner -= inner.mean(axis=1, keepdims=True)
    frames *= _WINDOW
    power = _power(fft.rfft(frames))
    correlation = fft.dct(power, type=1)[:, : _LAGS[-1] + 1]  # of an even function, at half the cost of an inverse FFT
    own = fft.dct(_power(fft.rfft(_WINDOW)), type=1)
    found = correlation[:, _LAGS[0] :] * (own[0] / np.maximum(correlation[:, :1], _SILENT)) / own[_LAGS]
    peaks = np.maximum(inner.max(axis=1), -inner.min(axis=1))
    return *_strongest(found), peaks, power[:, _BAND_BINS].sum(axis=1)


def _strongest(found: Samples) -> tuple[Samples, Samples]:
    """The strongest local maxima of each frame's normalised autocorrelation [frames, lags], divided by the window's.

    Returns the strengths less the octave cost, -1 for missing maxima, and log2 of F0 in Hz, each float32
    [frames, candidates].
    """
    rises = found[:, 1:] > found[:, :-1]
    frame, lag = np.divmod(np.flatnonzero(rises[:, :-1] > rises[:, 1:]), len(_LAGS) - 2)
    strong = found[frame, lag + 1] > _WEAKEST
    frame, lag = frame[strong], lag[strong]
    left, top, right = (found[frame, lag + step] for step in range(3))
    cost = (_OCTAVE_COST * np.log2(F0_RANGE_HZ[1] * _LAGS[1:-1] / SAMPLE_RATE)).astype(np.float32)[lag]
    best = np.lexsort((cost - top, frame))
    rank = np.arange(len(best)) - np.searchsorted(frame, frame)  # lexsort leaves the frames in their order
    best, at = best[rank < _CANDIDATES], (frame[rank < _CANDIDATES], rank[rank < _CANDIDATES])
    shift = 0.5 * (left - right) / ((left - top) + (right - top))  # to the parabola's maximum; never divides by 0
    strength = np.full((len(found), _CANDIDATES), -1.0, np.float32)
    strength[at] = (np.minimum(top - 0.25 * (left - right) * shift, 1.0) - cost)[best]
    octaves = np.zeros_like(strength)
    octaves[at] = np.log2(SAMPLE_RATE / (_LAGS[1:-1][lag] + shift))[best]
    return strength, octaves


def _power(spectra: npt.NDArray[np.complex64]) -> Samples:
    """Squares of magnitudes; `abs` would first take a root."""
    power: Samples = np.square(spectra.real)
    power += np.square(spectra.imag)
    return power


def _best_path(voiced: Samples, octaves: Samples, loudness: npt.NDArray[np.floating], steepness: float) -> Array:
    """F0 [frames], Hz or NaN, by Viterbi over candidates [frames, candidates] and an unvoiced state.

    `loudness` [frames] is relative to the loudest frame. A change costs `steepness` times as much as between frames
    10 ms apart.
    """
    unvoiced = _VOICING_THRESHOLD + np.maximum(0.0, 2.0 - loudness / (_SILENCE_THRESHOLD / (1.0 + _VOICING_THRESHOLD)))
    local = np.vstack([unvoiced, voiced.T]).astype(np.float64)
    octaves = octaves.T.astype(np.float64)
    cost = np.full((*local.shape[:1] * 2, local.shape[1] - 1), steepness * _VOICING_CHANGE_COST)  # from, to, frames - 1
    cost[0, 0] = 0.0
    cost[1:, 1:] = steepness * _OCTAVE_JUMP_COST * np.abs(octaves[:, None, :-1] - octaves[None, :, 1:])
    cost -= local[:, 1:]
    totals = _best_totals(local[:, 0], cost)
    before = (totals[:, None, :-1] - cost).argmax(axis=0).T.tolist()
    path = [int(totals[:, -1].argmax())]
    for states in reversed(before):
        path.append(states[path[-1]])
    chosen = np.array(path[::-1])
    f0 = np.exp2(octaves[chosen - 1, np.arange(len(chosen))])
    return np.where(chosen > 0, f0, np.nan)


def _best_totals(first: Array, cost: Array) -> Array:
    """The best total of every state [states, frames], from those of the first frame and costs [from, to, frames - 1].

    Costs of neighbouring steps are joined to those of two steps, then of four, and so on: a loop over frames takes
    several times as long.
    """
    steps = cost.shape[2]
    totals = np.empty((len(first), steps + 1))
    totals[:, 0] = first
    if steps:
        pairs = (cost.swapaxes(0, 1)[:, :, None, :-1:2] + cost[:, None, :, 1::2]).min(axis=0)
        totals[:, ::2] = _best_totals(first, pairs)
        totals[:, 1::2] = (totals[:, None, :steps:2] - cost[:, :, ::2]).max(axis=0)
    return totals


def syllable_nuclei(contour: Array, band: Samples) -> int:
    """Number of syllable nuclei: voiced peaks of the level within the band.

    Args:
        contour: F0 every 10 ms, NaN if unvoiced [frames].
        band: power of the same frames between 500 and 2,500 Hz [frames].
    """
    level = 10.0 * np.log10(np.maximum(np.convolve(band, _SMOOTHING, mode="same"), 1e-10))
    voiced = ~np.isnan(contour)
    near = np.convolve(voiced, np.ones(3), mode="same") > 0
    peaks = _peaks(level, _DIP_DB)
    return int((near[peaks] & (level[peaks] >= np.percentile(level, 99) - _WITHIN_DB)).sum())


def _peaks(level: Array, dip_db: float) -> list[int]:
    """Indices of the maxima of a level [n], dB, that exceed the dips on either side by `dip_db` or more.

    The signal is silent before the first frame and after the last one.
    """
    peaks: list[int] = []
    peak, highest, lowest = -1, -np.inf, -np.inf
    for index, value in enumerate([*level.tolist(), -np.inf]):
        if peak < 0:
            lowest = min(lowest, value)
            if value >= lowest + dip_db:
                peak, highest = index, value
        elif value > highest:
            peak, highest = index, value
        elif value <= highest - dip_db:
            peaks.append(peak)
            peak, lowest = -1, value
    return peaks
