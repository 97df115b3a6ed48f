"""Training examples: clips drawn with balance, joined, resampled, cropped and re-levelled, with labels recomputed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from specdec_cli.audio.prosody import HOP, speech_activity
from training.corpus import SAMPLE_RATE, Waveform, read_audio, to_pcm
from training.labels import Measures
from training.tempo import change_tempo
from training.timbre import alpha_ratio_db

LONGEST: Final = 30 * SAMPLE_RATE
SPEEDS: Final = (0.87, 1.15)
TEMPOS: Final = (0.7, 1.5)
LEVELS_DBFS: Final = (-42.0, -12.0)
CROP: Final = 0.06
RESAMPLE: Final = 0.7
LEVEL: Final = 0.6
NOISE: Final = 0.3
"""Probabilities of the other kinds of change."""
SHARES: Final = {"cremad": 0.4, "ravdess": 0.2, "nemo": 0.2, "emodb": 0.09, "synthetic": 0.11}
"""Of draws by corpus. CREMA-D has most of the speakers, EmoDB the fewest clips, and synthetic voices say
nothing about emotion."""


@dataclass(frozen=True)
class Source:
    """A clip to draw from. `emotion`: soft target, empty when unknown; `emotion_weight`: how much its loss counts."""

    path: Path
    corpus: str
    speaker: str
    measures: Measures
    emotion: Mapping[str, float]
    emotion_weight: float = 1.0

    @property
    def group(self) -> tuple[str, bool]:
        """What sampling balances within a corpus: the likeliest emotion, and whether it is certain."""
        if not self.emotion:
            return "", False
        likeliest = max(self.emotion, key=lambda name: self.emotion[name])
        return likeliest, self.emotion[likeliest] == 1.0

    def read(self) -> Waveform:
        """The clip, rounded to 16 bits, as the shipped weights were trained on it."""
        return to_pcm(read_audio(self.path)).astype(np.float32) / 32768.0


@dataclass(frozen=True)
class Example:
    """One training example: what the models encode, and its labels."""

    waveform: Waveform
    measures: Measures
    emotion: Mapping[str, float]
    emotion_weight: float


@dataclass(frozen=True)
class Plan:
    """Probabilities of the kinds of change that towers and decoders take differently. `longest_s`: joined clips are
    drawn up to this length; `cut_s`: what exceeds it is cut off unless the clip was joined."""

    join: float
    trim: float
    pad: float
    tempo: float
    longest_s: float
    cut_s: float


class Pool:
    """Sources with the drawing weights: corpora by `SHARES` (or all equally), groups equally within a corpus."""

    def __init__(self, sources: Sequence[Source]) -> None:
        groups: dict[str, dict[tuple[str, bool], list[Source]]] = defaultdict(lambda: defaultdict(list))
        self._alike: dict[tuple[str, tuple[str, bool]], list[Source]] = defaultdict(list)
        for source in sources:
            groups[source.corpus][source.group].append(source)
            self._alike[source.speaker, source.group].append(source)
        self._groups = {corpus: list(by_class.values()) for corpus, by_class in groups.items()}
        self._corpora = sorted(groups)
        weights = np.array([SHARES.get(corpus, 1.0) for corpus in self._corpora])
        self._weights = weights / weights.sum()

    def draw(self, rng: np.random.Generator) -> Source:
        """One source."""
        groups = self._groups[self._corpora[int(rng.choice(len(self._corpora), p=self._weights))]]
        group = groups[int(rng.integers(len(groups)))]
        return group[int(rng.integers(len(group)))]

    def draw_alike(self, rng: np.random.Generator, source: Source) -> Source:
        """Another clip (or the same again) of the same speaker with the same emotion."""
        alike = self._alike[source.speaker, source.group]
        return alike[int(rng.integers(len(alike)))]


def draw_example(rng: np.random.Generator, pool: Pool, plan: Plan) -> Example:
    """Draw a clip (or several of one speaker and emotion), change it as `plan` says and measure it again."""
    sources = [pool.draw(rng)]
    pieces = [sources[0].read()]
    if rng.random() < plan.join:
        wanted = rng.uniform(3.0, plan.longest_s) * SAMPLE_RATE
        while sum(map(len, pieces)) < wanted and len(pieces) < 8:
            sources.append(pool.draw_alike(rng, sources[0]))
            pieces.append(sources[-1].read())
    return _change(rng, sources, pieces, plan)


def _change(rng: np.random.Generator, sources: Sequence[Source], pieces: Sequence[Waveform], plan: Plan) -> Example:
    """Apply `plan` to the clips `pieces` of `sources`, joined in this order."""
    speed = rng.uniform(*SPEEDS) if rng.random() < RESAMPLE else 1.0
    pieces = [_resample(piece, speed) for piece in pieces]
    tempo = 1.0
    if rng.random() < plan.tempo:
        tempo = rng.uniform(*TEMPOS)
        pieces = [change_tempo(piece, tempo) for piece in pieces]
    speaking = [speech_activity(piece).speaking_s for piece in pieces]
    measures = _combine([source.measures for source in sources], speaking, speed, tempo)
    if rng.random() < plan.trim:
        pieces = [_trim(piece) for piece in pieces]
    longest = LONGEST if len(pieces) > 1 else int(plan.cut_s * SAMPLE_RATE)
    waveform = np.concatenate(pieces)[:longest]
    if rng.random() < CROP and len(waveform) > SAMPLE_RATE:
        size = int(rng.uniform(1.0, 1.6) * SAMPLE_RATE)
        start = int(rng.integers(0, max(1, len(waveform) - size)))
        waveform = waveform[start : start + size]
    if rng.random() < plan.pad:
        waveform = np.pad(waveform, [int(rng.uniform(0.0, 0.5) * SAMPLE_RATE) for _ in range(2)])[:LONGEST]
    activity = speech_activity(waveform)
    if rng.random() < LEVEL:
        waveform = _gain(waveform, rng.uniform(*LEVELS_DBFS) - activity.level_dbfs)
        activity = speech_activity(waveform)
    rate = measures.rate_syl_s
    if rate is not None and len(pieces) > 1:  # syllables stay, speaking time is measured on the whole
        cut = len(waveform) / max(1, sum(len(piece) for piece in pieces))
        rate *= min(1.15, max(0.87, sum(speaking) * min(1.0, cut) / max(activity.speaking_s, 0.1)))
    measures = replace(
        measures,
        rate_syl_s=rate,
        level_dbfs=activity.level_dbfs,
        pause_ratio=activity.pause_ratio,
        alpha_ratio_db=alpha_ratio_db(waveform, activity.active),
    )
    if rng.random() < NOISE:
        noise_dbfs = activity.level_dbfs - rng.uniform(15.0, 40.0)
        waveform = waveform + (10 ** (noise_dbfs / 20) * rng.standard_normal(len(waveform))).astype(np.float32)
    return Example(
        waveform=np.clip(waveform, -1.0, 1.0).astype(np.float32),
        measures=measures,
        emotion=_mean_emotion(sources),
        emotion_weight=sources[0].emotion_weight,
    )


def _resample(waveform: Waveform, speed: float) -> Waveform:
    """Play `speed` times as fast, tempo and pitch together, by linear interpolation."""
    if speed == 1.0:
        return waveform
    positions = np.arange(0, len(waveform) - 1, speed)
    return np.asarray(np.interp(positions, np.arange(len(waveform)), waveform), dtype=np.float32)


def _trim(waveform: Waveform) -> Waveform:
    """Without the silence before and after speech, but for 50 ms."""
    frames = np.flatnonzero(speech_activity(waveform).active)
    if not len(frames):
        return waveform
    return waveform[max(0, int(frames[0]) - 5) * HOP : (int(frames[-1]) + 6) * HOP]


def _gain(waveform: Waveform, decibels: float) -> Waveform:
    """Louder or softer, but never past full scale."""
    peak = float(np.abs(waveform).max(initial=1e-6))
    return np.asarray(waveform * min(10 ** (decibels / 20), 0.99 / peak), dtype=np.float32)


def _combine(parts: Sequence[Measures], speaking: Sequence[float], speed: float, tempo: float) -> Measures:
    """Measures of joined clips, resampled by `speed` and spoken `tempo` times as fast.

    F0 spreads are joined as those of normal distributions.
    """
    weights = np.maximum(np.array(speaking), 1e-3)
    weights = weights / weights.sum()
    rate = f0 = spread = None
    if all(part.rate_syl_s is not None for part in parts):
        rate = speed * tempo * float(np.dot(weights, [part.rate_syl_s or 0.0 for part in parts]))
    if all(part.f0_hz and part.f0_range_st is not None for part in parts):
        semitones = 12.0 * np.log2([part.f0_hz or 1.0 for part in parts])
        centre = float(np.dot(weights, semitones))
        deviations = np.array([part.f0_range_st or 0.0 for part in parts]) / 2.563  # 10th to 90th percentile in sd
        f0 = speed * 2.0 ** (centre / 12.0)
        spread = 2.563 * float(np.sqrt(np.dot(weights, deviations**2 + (semitones - centre) ** 2)))
    return Measures(gender=parts[0].gender, f0_hz=f0, f0_range_st=spread, rate_syl_s=rate)


def _mean_emotion(sources: Sequence[Source]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for source in sources:
        for name, share in source.emotion.items():
            total[name] += share / len(sources)
    return dict(total)
