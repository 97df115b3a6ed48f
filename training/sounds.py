"""Sounds that are not speech: tones, hum, noise, impulses and what resembles music, random but repeatable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

RATE: Final = 16_000
Array: TypeAlias = npt.NDArray[Any]
Random: TypeAlias = np.random.Generator


def _log_uniform(random: Random, least: float, most: float) -> float:
    return float(np.exp(random.uniform(np.log(least), np.log(most))))


def _sum(parts: list[Array]) -> Array:
    return np.asarray(np.sum(parts, axis=0))


def _normal(sound: Array) -> Array:
    return np.asarray(sound / (np.sqrt(np.mean(sound**2)) + 1e-12))


def _harmonics(base: float, time: Array, count: int, slope: float) -> Array:
    orders = [order for order in range(1, count + 1) if base * order < 7800]
    return _sum([np.sin(2 * np.pi * base * order * time) / order**slope for order in orders])


def tone(random: Random, time: Array) -> Array:
    """80 to 4000 Hz with up to three harmonics."""
    return _harmonics(_log_uniform(random, 80, 4000), time, int(random.integers(1, 4)), 1.0)


def chord(random: Random, time: Array) -> Array:
    """Three notes."""
    base = _log_uniform(random, 80, 1500)
    return _sum([_harmonics(base * 2 ** (step / 12), time, 3, 1.0) for step in (0, random.integers(3, 6), 7)])


def modulated(random: Random, time: Array) -> Array:
    """A tone or a chord whose level swings, or that is switched on and off."""
    carrier = (tone if random.random() < 0.5 else chord)(random, time)
    swing = np.sin(2 * np.pi * _log_uniform(random, 0.5, 20) * time)
    return carrier * (1 + random.uniform(0.3, 1) * swing if random.random() < 0.6 else (swing > 0) + 0.001)


def hum(random: Random, time: Array) -> Array:
    """50 or 60 Hz with harmonics."""
    return _harmonics(random.choice([50, 60]), time, int(random.integers(2, 30)), random.uniform(0.3, 1.5))


def noise(random: Random, time: Array) -> Array:
    """White, pink or brown."""
    spectrum = np.fft.rfft(random.standard_normal(len(time)))
    at_hz = np.maximum(np.fft.rfftfreq(len(time), 1 / RATE), 20)
    return np.fft.irfft(spectrum / at_hz ** (random.integers(3) / 2), len(time))


def impulses(random: Random, time: Array) -> Array:
    """Clicks, regular or not, that may ring."""
    sound = np.zeros(len(time))
    if random.random() < 0.5:
        sound[:: max(1, int(RATE / _log_uniform(random, 0.5, 60)))] = 1
    else:
        sound[random.integers(0, len(time), max(1, int(time[-1] * random.uniform(0.5, 20))))] = 1
    ringing = np.exp(-np.arange(800) / random.uniform(5, 200)) * np.sin(1 + np.arange(800) * random.uniform(0.05, 2))
    return np.convolve(sound, ringing)[: len(time)] if random.random() < 0.5 else sound


def arpeggio(random: Random, time: Array) -> Array:
    """Plucked notes, one after the other."""
    sound, base, decay_s = np.zeros(len(time)), _log_uniform(random, 100, 800), random.uniform(0.08, 1)
    steps, count, slope = (0, 4, 7, 12), int(random.integers(1, 8)), random.uniform(0.5, 2)
    for number, start in enumerate(range(0, len(time), int(RATE * random.uniform(0.08, 0.5)))):
        at = time[: min(len(time) - start, int(3 * decay_s * RATE))]
        note = _harmonics(base * 2 ** (steps[number % 4] / 12), at, count, slope)
        sound[start : start + len(at)] += note * np.minimum(at / 0.01, 1) * np.exp(-at / decay_s)
    return sound


def drums(random: Random, time: Array) -> Array:
    """A loop of sixteen steps: bass drum, snare, hi-hat."""
    sound, pattern = np.zeros(len(time)), random.random((16, 3)) < (0.3, 0.25, 0.6)
    pattern[0, 0] = True
    decays = random.uniform(0.05, 0.25, 3)
    for number, start in enumerate(range(0, len(time), int(15 / random.uniform(70, 160) * RATE))):
        at = time[: min(len(time) - start, int(0.4 * RATE))]
        hits = [
            np.sin(2 * np.pi * (60 * at + 9 * (1 - np.exp(-at / 0.02)))) * np.exp(-at / decays[0]),
            0.5 * random.standard_normal(len(at)) * np.exp(-at / decays[1]),
            0.2 * np.diff(random.standard_normal(len(at)), prepend=0) * np.exp(-at / decays[2] / 0.4),
        ]
        sound[start : start + len(at)] += pattern[number % 16] @ np.array(hits)
    return sound


def vibrato(random: Random, time: Array) -> Array:
    """A chord with vibrato."""
    swing = random.uniform(0.02, 0.03) / (2 * np.pi * 6) * np.sin(2 * np.pi * 6 * time)
    base = _log_uniform(random, 100, 700)
    return _sum([_harmonics(base * 2 ** (step / 12), time + swing, 8, 1.2) for step in (0, 4, 7)])


def mixed(random: Random, time: Array) -> Array:
    """Two or three of the others, at different levels."""
    chosen = random.choice(len(PURE), random.integers(2, 4), replace=False)
    return _sum([_normal(PURE[at](random, time)) * 10 ** random.uniform(-1.5, 0) for at in chosen])


PURE: Final[tuple[Callable[[Random, Array], Array], ...]] = (
    tone,
    chord,
    modulated,
    hum,
    noise,
    impulses,
    arpeggio,
    drums,
    vibrato,
)


def sound(kind: Callable[[Random, Array], Array], seed: int) -> npt.NDArray[np.float32]:
    """0.2 to 30 s of a kind, at any level."""
    random = np.random.default_rng(seed)
    made = kind(random, np.arange(int(RATE * _log_uniform(random, 0.2, 30))) / RATE)
    return np.asarray(made / np.abs(made).max() * 10 ** random.uniform(-2, 0), dtype=np.float32)
