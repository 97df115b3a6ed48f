"""The training material: real clips of the data folder and synthetic clips of espeak-ng, as sources to draw from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import soundfile
from rich.progress import track

from training.augment import Source
from training.corpus import SAMPLE_RATE, read_audio, to_pcm
from training.labels import Row, emotion_target, training_rows
from training.synthetic import draw_recipe, measure_clip, speak, syllables

SYNTHETIC_CLIPS: Final = 2400
SYNTHETIC_EMOTION_WEIGHT: Final = 0.25
"""A synthetic voice sounds neutral, but says little about neutral people."""


def real_sources(data: Path, rows: list[Row]) -> list[Source]:
    """Training clips of the data folder (see `labels.training_rows`)."""
    return [
        Source(data / row.file, row.corpus, row.speaker, row.measures, emotion_target(row))
        for row in training_rows(rows)
    ]


def synthetic_sources(folder: Path, seed: int) -> list[Source]:
    """Clips that are spoken into `folder`, the same for the same `seed`. FileNotFoundError: there is no espeak-ng."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for number in track(range(SYNTHETIC_CLIPS), "synthetic clips"):
        recipe = draw_recipe(np.random.default_rng([seed, number]))
        path = folder / f"{number}.flac"
        soundfile.write(path, to_pcm(speak(recipe)), SAMPLE_RATE)
        measures = measure_clip(read_audio(path), recipe.gender, syllables(recipe.language, recipe.text))
        speaker = recipe.language + recipe.variant
        sources.append(Source(path, "synthetic", speaker, measures, {"neutral": 1.0}, SYNTHETIC_EMOTION_WEIGHT))
    return sources
