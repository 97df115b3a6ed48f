"""Small synthetic tones to train on."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.mini_pair import voice
from training.augment import Source
from training.corpus import SAMPLE_RATE, Waveform
from training.labels import DEV_SPEAKERS, REPORT_SPEAKERS, TRAINING_CORPORA, Measures


def tone(frequency: float, seconds: float, level_dbfs: float = -20.0) -> Waveform:
    """A harmonic tone whose mean power is `level_dbfs`."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    wave = sum(np.sin(2 * np.pi * frequency * order * time) / order for order in range(1, 9))
    wave = wave * 10 ** (level_dbfs / 20) / np.sqrt(np.mean(np.square(wave)))
    return np.asarray(wave, dtype=np.float32)


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> list[Source]:
    """Eight tones of two speakers, low and angry or high and happy."""
    folder, sources = tmp_path_factory.mktemp("toy"), []
    for number in range(8):
        high = number % 2 == 1
        frequency = (220.0 if high else 100.0) + number
        soundfile.write(folder / f"{number}.wav", tone(frequency, 1.0 + 0.05 * number), SAMPLE_RATE)
        measures = Measures("f" if high else "m", frequency, 3.0, None, 4.0 + number / 4, 0.0)
        emotion = {"happy" if high else "angry": 1.0}
        sources.append(Source(folder / f"{number}.wav", "toy", f"toy_{number % 2}", measures, emotion))
    return sources


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> Path:
    """A folder as training reads it: labels.tsv, and clips of training, dev and report speakers of each corpus."""
    folder = tmp_path_factory.mktemp("corpora")
    split = {corpus: [f"{corpus}_new"] for corpus in TRAINING_CORPORA} | {"casia": ["casia_1"], "secap": [""]}
    for speaker in sorted(DEV_SPEAKERS | REPORT_SPEAKERS):
        split[speaker.partition("_")[0]].append(speaker)
    records = []
    for corpus, speaker in ((corpus, speaker) for corpus, speakers in split.items() for speaker in speakers):
        for number, emotion in enumerate(("anger", "sadness")):
            file, f0_hz = f"{corpus}-{speaker}-{emotion}.wav", 110.0 + 100 * number
            soundfile.write(folder / file, voice(len(records), 1.2), SAMPLE_RATE)
            measured = {"f0_hz": f0_hz, "f0_range_st": 3.0, "level_dbfs": -20.0, "pause_ratio": 0.0}
            known = {"file": file, "corpus": corpus, "speaker": speaker, "emotion": emotion, "heard": emotion}
            records.append(known | measured | {"gender": "mf"[number], "rate_syl_s": 5.0})
    lines = ["\t".join(map(str, record.values())) for record in records]
    (folder / "labels.tsv").write_text("\n".join(["\t".join(records[0]), *lines, ""]), encoding="utf-8")
    return folder
