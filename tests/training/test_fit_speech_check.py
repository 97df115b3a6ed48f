"""The fit of the speech check: its constants are those of the module, and a small one tells speech from sounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import has_speech, speech
from training.corpus import Waveform, read_audio
from training.fit_speech_check import Fitted, all_figures, degraded, fit, sounds
from training.sounds import drums, noise, tone

KINDS = (tone, noise, drums)


@pytest.fixture(scope="module")
def clips() -> list[Waveform]:
    samples = Path(__file__).parents[2] / "samples"
    return [clip for path in sorted(samples.glob("*.flac")) if len(clip := read_audio(path)) > 16_000]


def test_it_counts_with_the_constants_of_the_module(clips: list[Waveform]) -> None:
    shipped = Fitted(speech._BIAS, speech._MODEL)
    for clip in [*clips, *(one for kind in KINDS for one in sounds(kind, 3, first=7))]:
        assert shipped.marks(clip) is not has_speech(clip, 16_000)
    found: dict[str, object] = {"Final": None, "np": np}
    exec(shipped.source().replace(": Final", ""), found)
    assert found["_BIAS"] == speech._BIAS
    assert np.array_equal(np.array(found["_MODEL"]), speech._MODEL)


@pytest.mark.full
def test_a_small_fit_tells_speech_from_sounds(clips: list[Waveform]) -> None:
    random = np.random.default_rng(0)
    known = all_figures(one for clip in clips for one in (clip, *(degraded(random, clip) for _ in range(4))))
    others = np.concatenate([all_figures(sounds(kind, 15, first=0)) for kind in KINDS])
    fitted = fit(known, others)
    assert not any(fitted.marks(clip) for clip in clips)
    assert all(fitted.marks(one) for kind in (tone, noise) for one in sounds(kind, 5, first=100))
