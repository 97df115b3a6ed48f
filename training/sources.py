"""The training material: real clips of the data folder and synthetic clips of espeak-ng, as sources to draw from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from training.augment import Source
from training.corpus import Waveform, WaveformStore, read_audio, write_store
from training.labels import Measures, Row, emotion_target, training_rows
from training.synthetic import draw_recipe, measure_clip, speak, syllables

SYNTHETIC_EMOTION_WEIGHT: Final = 0.25
"""A synthetic voice sounds neutral, but says little about neutral people."""


class Material:
    """Sources for training and one `read` for all of their waveforms."""

    def __init__(self, sources: list[Source], stores: list[WaveformStore]) -> None:
        self.sources = sources
        self._stores = stores

    def read(self, key: str) -> Waveform:
        """Waveform of the clip `key`."""
        for store in self._stores:
            if key in store:
                return store[key]
        raise KeyError(key)


def speech_store(data: Path, rows: list[Row], work: Path, advance: Callable[[], Any] = lambda: None) -> WaveformStore:
    """All clips of the data folder, decoded once."""
    return write_store(
        work / "audio", "speech", [row.file for row in rows], lambda key: read_audio(data / key), advance
    )


def real_sources(rows: list[Row]) -> list[Source]:
    """Training clips of the data folder (see `labels.training_rows`)."""
    return [Source(row.file, row.corpus, row.speaker, row.measures, emotion_target(row)) for row in training_rows(rows)]


def synthetic_sources(
    work: Path, count: int, seed: int, advance: Callable[[], Any] = lambda: None
) -> tuple[list[Source], WaveformStore]:
    """`count` synthetic clips, the same for the same `seed`, spoken and measured once."""
    recipes = [draw_recipe(np.random.default_rng([seed, number])) for number in range(count)]
    keys = [f"synthetic/{number}" for number in range(count)]
    by_key = dict(zip(keys, recipes, strict=True))
    store = write_store(work / "audio", f"synthetic-{seed}-{count}", keys, lambda key: speak(by_key[key]), advance)
    measures_path = work / "audio" / f"synthetic-{seed}-{count}.measures.json"
    if not measures_path.exists():
        found = [
            asdict(measure_clip(store[key], recipe.gender, syllables(recipe.language, recipe.text)))
            for key, recipe in by_key.items()
        ]
        measures_path.write_text(json.dumps(found), encoding="utf-8")
    measures = [Measures(**values) for values in json.loads(measures_path.read_text(encoding="utf-8"))]
    sources = [
        Source(key, "synthetic", recipe.language + recipe.variant, value, {"neutral": 1.0}, SYNTHETIC_EMOTION_WEIGHT)
        for (key, recipe), value in zip(by_key.items(), measures, strict=True)
    ]
    return sources, store


def training_material(
    data: Path,
    rows: list[Row],
    work: Path,
    synthetic: int,
    seed: int,
    advance: Callable[[], Any] = lambda: None,
) -> Material:
    """Real and synthetic training clips. Raises `ValueError` if the table has no training clips."""
    real = real_sources(rows)
    if not real:
        raise ValueError(f"{data}: labels.tsv lists no clips of the training corpora")
    spoken, spoken_store = synthetic_sources(work, synthetic, seed, advance)
    return Material(real + spoken, [speech_store(data, rows, work, advance), spoken_store])
