"""Make the sample clips and their manifest with espeak-ng: `python -m training.make_samples` from the repository root.

The classes in the manifest are measured from each clip with the definitions that the mini pair was trained on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from specdec_cli.audio.prosody import speech_activity
from training.corpus import SAMPLE_RATE
from training.labels import classify
from training.synthetic import Recipe, measure_clip, speak, syllables

FOLDER: Final = Path(__file__).parents[1] / "samples"


@dataclass(frozen=True)
class Sample:
    """One clip: how it is spoken and the level of its speech in dBFS."""

    name: str
    recipe: Recipe
    level_dbfs: float


SAMPLES: Final = (
    Sample(
        "zh_female_fast_loud",
        Recipe("cmn", "f", "+Annie", "快看，天边有一道彩虹，真是太漂亮了！", 285, 66, 160, 0),
        -16.0,
    ),
    Sample(
        "zh_male_slow_soft",
        Recipe("cmn", "m", "+m5", "夜已经很深了，街上，一个人也没有。", 130, 42, 70, 700),
        -38.0,
    ),
    Sample(
        "zh_female_calm",
        Recipe("cmn", "f", "+f3", "今天的课就上到这里，大家回去记得复习。", 185, 62, 60, 0),
        -25.0,
    ),
    Sample(
        "en_male_fast_loud",
        Recipe("en-us", "m", "+m8", "Hurry up, the last bus is about to leave without us!", 235, 92, 260, 0),
        -15.0,
    ),
    Sample(
        "en_female_slow_soft",
        Recipe("en-us", "f", "+f2", "The lake was still, and nothing moved on the far shore.", 110, 30, 50, 0),
        -37.0,
    ),
    Sample(
        "en_male_pauses",
        Recipe("en-gb", "m", "+m4", "Well, to be honest, I am not sure, that it will work.", 160, 62, 100, 450),
        -26.0,
    ),
)


def main() -> None:
    """Write every clip as 16 kHz mono FLAC, and `manifest.json`."""
    manifest = []
    for sample in SAMPLES:
        recipe = sample.recipe
        waveform = speak(recipe)
        gain = 10.0 ** ((sample.level_dbfs - speech_activity(waveform).level_dbfs) / 20.0)
        waveform = np.clip(waveform * gain, -0.99, 0.99).astype(np.float32)
        soundfile.write(FOLDER / f"{sample.name}.flac", waveform, SAMPLE_RATE, subtype="PCM_16")
        measures = measure_clip(waveform, recipe.gender, syllables(recipe.language, recipe.text))
        manifest.append(
            {
                "file": f"{sample.name}.flac",
                "language": "zh" if recipe.language == "cmn" else "en",
                "text": recipe.text,
                "duration_s": round(len(waveform) / SAMPLE_RATE, 3),
                "classes": {**classify(measures), "emotion": "neutral"},
                "measured": {
                    "f0_hz": round(measures.f0_hz or 0.0, 1),
                    "f0_range_st": round(measures.f0_range_st or 0.0, 2),
                    "level_dbfs": round(measures.level_dbfs or 0.0, 2),
                    "rate_syl_s": round(measures.rate_syl_s or 0.0, 2),
                    "pause_ratio": round(measures.pause_ratio or 0.0, 3),
                    "alpha_ratio_db": round(measures.alpha_ratio_db or 0.0, 2),
                },
            }
        )
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (FOLDER / "manifest.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
