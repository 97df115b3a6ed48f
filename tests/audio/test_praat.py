"""F0 beside Praat's own, through parselmouth; skipped without it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio.prosody import F0_RANGE_HZ, SAMPLE_RATE, f0_median_and_range, f0_track
from tests.audio.encode import load_audio
from training.labels import Row, read_rows

parselmouth = pytest.importorskip("parselmouth", reason="needs praat-parselmouth")


def praat(samples: np.ndarray) -> np.ndarray:
    """F0 of the frames that Praat finds voiced, Hz."""
    sound = parselmouth.Sound(samples.astype(np.float64), SAMPLE_RATE)
    low, high = F0_RANGE_HZ
    found = sound.to_pitch_ac(time_step=0.01, pitch_floor=low, pitch_ceiling=high).selected_array["frequency"]
    return found[found > 0]


def errors(files: Iterable[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Of each file that Praat finds voiced: relative error of the median, and error of the range in semitones."""
    medians, ranges = [], []
    for file in files:
        samples, _ = load_audio(file, SAMPLE_RATE)
        theirs, ours = f0_median_and_range(praat(samples)), f0_median_and_range(f0_track(samples))
        if theirs is not None:
            medians.append(abs(ours[0] / theirs[0] - 1) if ours else np.inf)
            ranges.append(abs(ours[1] - theirs[1]) if ours else np.inf)
    return np.array(medians), np.array(ranges)


def test_the_samples_have_the_pitch_that_praat_finds(samples: Path) -> None:
    medians, ranges = errors(sorted(samples.glob("*.flac")))
    assert len(medians) == 6
    assert medians.max() < 0.03
    assert np.median(ranges) < 0.5


@pytest.mark.full
@pytest.mark.data
def test_the_median_is_within_3_percent_on_95_percent_of_the_clips(data: Path) -> None:
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in read_rows(data):
        rows.setdefault((row.corpus, row.speaker), []).append(row)
    clips = [row for of_speaker in rows.values() for row in of_speaker[:: max(1, len(of_speaker) // 3)][:3]]
    clips += rows["secap", ""][3:63]
    medians, ranges = errors(data / row.file for row in clips)
    print(
        f"{len(medians)} clips of {len(rows)} speakers: within 3% {np.mean(medians < 0.03):.1%}, within 1% "
        f"{np.mean(medians < 0.01):.1%}; range off by {np.quantile(ranges, [0.5, 0.9]).round(2)} st (median, 90%)"
    )
    assert len(medians) > 300
    assert np.mean(medians < 0.03) >= 0.95
    assert np.median(ranges) < 0.3
