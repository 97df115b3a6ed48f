"""Whatever a healthy file is encoded as, the same sound comes out."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
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


@pytest.mark.parametrize("extension", ["wav", "pcm24.wav", "pcm32.wav", "float.wav", "double.wav", "flac", "24.flac"])
def test_integers_are_scaled_to_full_scale_one(extension: str, tmp_path: Path) -> None:
    samples = np.linspace(-1, 0.999, 16000, dtype=np.float32)[:, None]
    path = saved(tmp_path, sndfile_bytes(samples, 16000, extension))
    assert np.abs(load_audio(path)[0] - samples[:, 0]).max() < 1e-4


@pytest.mark.parametrize("extension", ["alac.m4a", "mka"])
def test_lossless_codecs_through_ffmpeg_are_exact(extension: str, tmp_path: Path) -> None:
    samples = tone(1.0, amplitude=0.9)
    loaded, _ = load_audio(saved(tmp_path, ffmpeg_bytes(samples, 16000, extension)))
    assert np.abs(loaded - samples[:, 0]).max() < 1e-4


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a"])
def test_the_name_does_not_matter(extension: str, tmp_path: Path) -> None:
    for name in ("clip.raw", "clip.txt", "clip", "-", "http:clip.mp3", "line\nbreak.wav", "声音.m4a"):
        assert_is_the_tone(load_audio(saved(tmp_path, healthy(extension), name)))


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xfe.m4a")
    with open(path, "wb") as file:
        file.write(healthy("m4a"))
    assert_is_the_tone(load_audio(os.fsdecode(path)))


@pytest.mark.parametrize("rate", [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000])
@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_rates_keep_pitch_level_and_length(rate: int, extension: str, tmp_path: Path) -> None:
    samples, recording = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, rate), rate, extension)))
    assert_is_the_tone((samples, recording), tolerance=1e-3)
    assert len(samples) == 16000


@pytest.mark.parametrize("hz", [100.0, 1000.0, 3000.0, 7000.0])
@pytest.mark.parametrize("rate", [22050, 44100, 96000])
def test_resampling_is_clean(hz: float, rate: int, tmp_path: Path) -> None:
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, rate, hz), rate, "float.wav")))
    ideal = tone(1.0, 16000, hz)[:, 0]
    assert np.abs(samples - ideal)[800:-800].max() < 1e-3  # -60 dB


@pytest.mark.parametrize("hz", [9000.0, 12000.0, 20000.0])
def test_what_the_lower_rate_cannot_hold_is_filtered_not_folded(hz: float, tmp_path: Path) -> None:
    both = tone(1.0, 48000) + tone(1.0, 48000, hz)
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(both, 48000, "float.wav")))
    assert np.abs(samples - tone(1.0)[:, 0])[800:-800].max() < 1e-3


def test_another_target_rate(tmp_path: Path) -> None:
    samples, recording = load_audio(saved(tmp_path, healthy("wav")), sampling_rate=24000)
    assert recording.sampling_rate == 24000
    assert len(samples) == 24000
    assert strongest_hz(samples, 24000) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6])
def test_channels_are_averaged(channels: int, tmp_path: Path) -> None:
    gains = np.linspace(0.2, 1.0, channels, dtype=np.float32)
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, channels=channels) * gains, 16000, "float.wav")))
    assert np.abs(samples - tone(1.0)[:, 0] * gains.mean()).max() < 1e-6


@pytest.mark.parametrize("extension", ["m4a", "webm", "mka"])
@pytest.mark.parametrize("channels", [2, 6])
def test_channels_through_ffmpeg(extension: str, channels: int, tmp_path: Path) -> None:
    data = ffmpeg_bytes(tone(1.0, 48000, channels=channels), 48000, extension)
    samples, recording = load_audio(saved(tmp_path, data))
    if extension == "mka":  # lossy codecs cut the sixth, low-frequency channel
        assert_is_the_tone((samples, recording))


def test_one_loud_channel_of_many_is_not_taken_for_cancellation(tmp_path: Path) -> None:
    samples = tone(1.0, channels=6)
    samples[:, 1:] = 0
    loaded, _ = load_audio(saved(tmp_path, sndfile_bytes(samples, 16000, "float.wav")))
    assert np.abs(loaded - samples[:, 0] / 6).max() < 1e-6


def test_the_sound_of_a_video(tmp_path: Path) -> None:
    for container in ("mp4", "matroska", "mov"):
        samples, _ = load_audio(saved(tmp_path, video_bytes(container, sound=True), f"clip.{container}"))
        assert strongest_hz(samples) == pytest.approx(440, abs=2)


def test_many_blocks_join_without_a_seam(tmp_path: Path) -> None:
    seconds = 40.0
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(tone(seconds, 44100), 44100, "flac")))
    assert np.abs(samples - tone(seconds)[:, 0])[800:-800].max() < 1e-3


def test_importing_loads_neither_torch_nor_a_decoder() -> None:
    heavy = "{'torch', 'av', 'soxr', 'soundfile', 'librosa', 'transformers', 'rich', 'typer'}"
    code = f"import sys, specdec_cli.audio; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
