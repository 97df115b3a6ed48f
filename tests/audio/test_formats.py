"""Whatever a healthy file is encoded as, the same sound comes out."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import Recording
from tests.audio.encode import (
    FFMPEG,
    PADDED,
    SNDFILE,
    Samples,
    ffmpeg_bytes,
    healthy,
    load_audio,
    sndfile_bytes,
    tone,
    video_bytes,
)


def saved(folder: Path, data: bytes, name: str = "clip.wav") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def strongest_hz(samples: Samples, rate: int = 16000) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


def rms_of_middle(samples: Samples) -> float:
    quarter = len(samples) // 4
    return float(np.sqrt(np.mean(np.square(samples[quarter:-quarter], dtype=np.float64))))


def assert_is_the_tone(loaded: tuple[Samples, Recording], seconds: float = 1.0, tolerance: float = 0.03) -> None:
    samples, recording = loaded
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert len(samples) == round(recording.duration_s * recording.sampling_rate)
    assert recording.duration_s >= seconds - 1e-9
    assert strongest_hz(samples) == pytest.approx(440, abs=2)
    assert rms_of_middle(samples) == pytest.approx(0.3 / np.sqrt(2), rel=tolerance)


@pytest.mark.parametrize("extension", [*SNDFILE, *FFMPEG])
def test_every_format_gives_the_same_tone(extension: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, healthy(extension), f"clip.{extension}")
    loaded = load_audio(path)
    assert_is_the_tone(loaded, tolerance=0.07 if extension == "mp3" else 0.03)  # LAME scales by 0.95 at low rates
    _, recording = loaded
    if extension in PADDED:
        assert recording.duration_s < 1.25
    else:
        assert recording.duration_s == pytest.approx(1.0, abs=0.02)
    assert recording.path == str(path)
    assert recording.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert recording.decode_s > 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("extension", ["alac.m4a", "mka"])
def test_lossless_codecs_through_ffmpeg_are_exact(extension: str, tmp_path: Path) -> None:
    samples = tone(1.0, amplitude=0.9)
    loaded, _ = load_audio(saved(tmp_path, ffmpeg_bytes(samples, 16000, extension)))
    assert np.abs(loaded - samples[:, 0]).max() < 1e-4


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a"])
def test_the_name_does_not_matter(extension: str, tmp_path: Path) -> None:
    for name in ("clip.raw", "-", "http:clip.mp3", "line\nbreak.wav", "声音.m4a", os.fsdecode(b"\xff\xfe.m4a")):
        assert_is_the_tone(load_audio(saved(tmp_path, healthy(extension), name)))


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_rates_keep_pitch_level_and_length(rate: int, tmp_path: Path) -> None:
    samples, recording = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, rate), rate, "wav")))
    assert_is_the_tone((samples, recording), tolerance=1e-3)
    assert len(samples) == 16000


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_channels_are_averaged(channels: int, tmp_path: Path) -> None:
    gains = np.linspace(0.2, 1.0, channels, dtype=np.float32)
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, channels=channels) * gains, 16000, "float.wav")))
    assert np.abs(samples - tone(1.0)[:, 0] * gains.mean()).max() < 1e-6


def test_the_sound_of_a_video(tmp_path: Path) -> None:
    for container in ("mp4", "matroska", "mov"):
        samples, _ = load_audio(saved(tmp_path, video_bytes(container, sound=True), f"clip.{container}"))
        assert strongest_hz(samples) == pytest.approx(440, abs=2)
