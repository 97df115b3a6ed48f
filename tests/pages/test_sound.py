"""What is played and drawn is the recording that was captioned."""

import hashlib
import io

import numpy as np
import pytest
import soundfile

from specdec_cli.pages.sound import COLUMNS, clip_sound, envelope, mp3, pieces_of, pitch_columns
from tests.mini_pair import RATE, voice


def tone(hertz: float, seconds: float) -> np.ndarray:
    t = np.arange(round(seconds * RATE)) / RATE
    return sum(0.1 * np.sin(2 * np.pi * hertz * n * t) / n for n in range(1, 6)).astype(np.float32)


def test_an_envelope_holds_the_extremes_of_every_column():
    samples = np.zeros(4 * COLUMNS, np.float32)
    samples[0:4] = [0.1, -0.25, 0.5, 0.0]
    samples[-1] = -0.5
    steps = envelope(samples)
    assert len(steps) == 2 * COLUMNS
    assert steps[:4] == (-64, 127, 0, 0)
    assert steps[-2:] == (-127, 0)


def test_the_pitch_curve_is_where_the_tone_is():
    samples = np.concatenate([np.zeros(RATE, np.float32), tone(200, 1.0), np.zeros(RATE, np.float32), tone(300, 1.0)])
    curve = pitch_columns(samples)
    quarter = len(curve) // 4
    assert len(curve) == COLUMNS
    assert set(curve[5 : quarter - 5]) == {None}
    for start, hertz in ((quarter, 200), (3 * quarter, 300)):
        inner = curve[start + 6 : start + quarter - 6]
        assert [value for value in inner if value is not None] == pytest.approx([hertz] * len(inner), rel=0.02)


@pytest.mark.parametrize("length", [1, 159, 160, 500, 1600])
def test_a_curve_of_next_to_nothing(length):
    assert len(pitch_columns(tone(200, 1.0)[:length])) == max(1, length // 160)


def test_the_mp3_sounds_like_the_samples():
    samples = voice(3, 2.0)
    encoded = mp3(samples)
    decoded, rate = soundfile.read(io.BytesIO(encoded), dtype="float32")
    assert rate == RATE
    assert abs(len(decoded) - len(samples)) < 0.1 * RATE
    assert len(encoded) < 9000 * 2.0
    spectra = [np.abs(np.fft.rfft(part[: 2 * RATE - 2000])) for part in (samples, decoded)]
    assert np.corrcoef(*spectra)[0, 1] > 0.95


def test_a_piece_is_cut_where_it_was_captioned(tmp_path):
    path = tmp_path / "two.wav"
    soundfile.write(path, np.concatenate([tone(150, 1.0), tone(250, 2.0)]), RATE)
    pieces = pieces_of(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), [(0.0, 1.0), (1.0, 3.0)])
    drawings = [clip_sound(piece.samples).drawing for piece in pieces]
    assert [each["seconds"] for each in drawings] == [1.0, 2.0]
    assert [each["median"] for each in drawings] == pytest.approx([150, 250], rel=0.02)
