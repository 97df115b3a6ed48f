"""What holds no speech is marked, or refused where that is asked for; speech is neither."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.audio import has_speech
from specdec_cli.captioner import Captioner
from specdec_cli.errors import AudioContentError
from specdec_cli.labels import Lexicon
from tests.audio.encode import load_audio
from tests.tiers import few
from training.sounds import PURE, RATE, mixed, sound

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "en_female_slow_soft.flac"
CLIPS = 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*PURE, mixed])
def test_other_sounds_are_no_speech(kind):
    taken = [seed for seed in range(CLIPS) if has_speech(sound(kind, 1000 + seed), RATE)]
    assert len(taken) <= CLIPS * (0.1 if kind is mixed else 0.05), taken


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.29])
def test_less_than_a_third_of_a_second_is_no_speech(seconds):
    clip, recording = load_audio(SAMPLE)
    loudest = int(np.argmax(np.convolve(clip**2, np.ones(1600), "same")))
    start = max(0, loudest - int(seconds * RATE / 2))
    assert has_speech(clip, recording.sampling_rate)
    assert not has_speech(clip[start : start + int(seconds * RATE)], RATE)


@pytest.mark.parametrize("level_db", [-40, 0])
def test_speech_is_found_at_any_level_and_beside_silence(level_db):
    clip = load_audio(SAMPLE)[0] * np.float32(10 ** (level_db / 20))
    assert has_speech(clip, RATE)
    assert has_speech(np.concatenate([np.zeros(12 * RATE, np.float32), clip, np.zeros(25 * RATE, np.float32)]), RATE)


@pytest.mark.data
@pytest.mark.parametrize("clips_of_each", few([50, 200]))
@pytest.mark.parametrize("corpus", few(["casia", "cremad", "emodb", "nemo", "ravdess", "secap"]))
def test_speech_of_the_corpora_is_found(corpus, clips_of_each, data):
    paths = sorted((data / corpus / "audio").iterdir())
    chosen = random.Random(7).sample(paths, min(clips_of_each, len(paths)))
    marked = [path.name for path in chosen if not has_speech(load_audio(path)[0], RATE)]
    assert len(marked) <= 0.01 * clips_of_each, marked


@pytest.fixture(scope="module")
def edge() -> Captioner:
    return Captioner.load("mini", {"decoding.mode": "edge", "decoding.max_new_tokens": 3})


@pytest.fixture
def clips(tmp_path) -> tuple[Path, Path]:
    """A tone, and speech with six seconds of the tone after it."""
    tone = (0.2 * np.sin(2 * np.pi * 440 / RATE * np.arange(6 * RATE))).astype(np.float32)
    clip = load_audio(SAMPLE)[0]
    clip = np.resize(clip, 6 * RATE)
    soundfile.write(tmp_path / "tone.wav", tone, RATE)
    soundfile.write(tmp_path / "both.wav", np.concatenate([clip, tone]), RATE)
    return tmp_path / "tone.wav", tmp_path / "both.wav"


def _with(captioner: Captioner, **audio: Any) -> Captioner:
    config = captioner.config
    return captioner.variant(config.model_copy(update={"audio": config.audio.model_copy(update=audio)}))


def test_a_caption_of_a_tone_is_marked(edge, clips):
    marked, spoken = edge.caption(clips[0]), edge.caption(SAMPLE)
    assert marked.caption is not None
    assert (marked.flags, spoken.flags) == (("no_speech",), ())
    assert '"flags":["no_speech"]' in marked.to_json()
    assert edge.run_samples(load_audio(clips[0])[0], 16_000).finish().flags


@pytest.mark.parametrize("kept", [False, True])
def test_a_tone_has_no_classes_unless_they_are_asked_for(edge, clips, kept):
    labelled = _with(edge, no_speech="keep" if kept else "mark").labelled(Lexicon.shipped())
    tone, spoken = labelled.caption(clips[0]), labelled.caption(SAMPLE)
    for found in (tone.labels, tone.emotions, tone.scores, tone.agrees):
        assert (found is not None) == kept
    assert tone.measured is not None
    assert None not in (spoken.labels, spoken.emotions, spoken.agrees)
    assert tone.settings.get("keep_no_speech") == (True if kept else None)


def test_a_tone_is_refused_where_that_is_asked_for(edge, clips):
    refusing = _with(edge, no_speech="refuse")
    for refused in (lambda: refusing.caption(clips[0]), lambda: refusing.run_samples(load_audio(clips[0])[0], 16_000)):
        with pytest.raises(AudioContentError, match="holds no speech") as error:
            refused()
        assert "audio.no_speech" in str(error.value.hint)
    assert refusing.caption(SAMPLE).flags == ()


def test_pieces_are_checked_one_by_one(edge, clips):
    assert ["no_speech" in piece.flags for piece in _with(edge, segment=6.0).captions(clips[1])] == [False, True]
    first, second = _with(edge, segment=6.0, no_speech="refuse").captions(clips[1])
    assert first.error is None
    assert "from 6.00 s to 12.00 s holds no speech" in second.error.message
