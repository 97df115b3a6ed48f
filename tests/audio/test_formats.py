"""Whatever a healthy file is encoded as, the same sound comes out; one that states no length is taken whole."""

import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import Recording, paths
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
    wav_bytes,
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
def test_every_format_gives_the_same_tone(extension, tmp_path, capfd):
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


def test_digests_of_few_large_files_are_kept(tmp_path, monkeypatch):
    for name, value in {"_LARGE": 1, "_KEPT": 3, "_digests": {}}.items():
        monkeypatch.setattr(paths, name, value)
    for count in range(5):
        path = saved(tmp_path, healthy("wav", 1.0 + count), f"{count}.wav")
        for _ in range(2):
            assert load_audio(path)[1].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert len(paths._digests) == min(count + 1, 3)


@pytest.mark.parametrize("extension", ["alac.m4a", "mka"])
def test_lossless_codecs_through_ffmpeg_are_exact(extension, tmp_path):
    samples = tone(1.0, amplitude=0.9)
    loaded, _ = load_audio(saved(tmp_path, ffmpeg_bytes(samples, 16000, extension)))
    assert np.abs(loaded - samples[:, 0]).max() < 1e-4


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a"])
def test_the_name_does_not_matter(extension, tmp_path):
    for name in ("clip.raw", "-", "http:clip.mp3", "line\nbreak.wav", "声音.m4a", os.fsdecode(b"\xff\xfe.m4a")):
        assert_is_the_tone(load_audio(saved(tmp_path, healthy(extension), name)))


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_rates_keep_pitch_level_and_length(rate, tmp_path):
    samples, recording = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, rate), rate, "wav")))
    assert_is_the_tone((samples, recording), tolerance=1e-3)
    assert len(samples) == 16000


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_channels_are_averaged(channels, tmp_path):
    gains = np.linspace(0.2, 1.0, channels, dtype=np.float32)
    samples, _ = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, channels=channels) * gains, 16000, "float.wav")))
    assert np.abs(samples - tone(1.0)[:, 0] * gains.mean()).max() < 1e-6


PCM = (tone(1.0) * 32767).astype("<i2").tobytes()
ID3V1 = b"TAG" + bytes(125)
ID3V2 = b"ID3\x03\0\0\0\0\x02\0" + bytes(256)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF - 36, 0xFFFFFFFF - 36])
@pytest.mark.parametrize("riff_size", [0, 0xFFFFFFFF, 36 + len(PCM)])
def test_a_streamed_wav_loads_whole(size, riff_size, tmp_path):
    loaded = load_audio(saved(tmp_path, wav_bytes(PCM, size, riff=riff_size)))
    assert_is_the_tone(loaded)
    assert loaded[1].duration_s == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"LIST\xff\0\0\0INFO"),  # tags cut short: the audio is whole
        (b"LIST\x05\0\0\0INFO\0\0", b""),  # odd length and its padding byte
        (b"JUNK" + struct.pack("<I", 3000) + bytes(3000), b""),
        (b"bext" + struct.pack("<I", 602) + bytes(602), b"id3 \x02\0\0\0\0\0"),
    ],
)
def test_other_chunks_around_the_samples(before, after, tmp_path):
    assert load_audio(saved(tmp_path, wav_bytes(PCM, before=before, after=after)))[1].duration_s == 1.0


def patched(extension: str, at: int, *found: int) -> bytes:
    """A healthy file with other bytes in its header."""
    data = bytearray(healthy(extension))
    data[at : at + len(found)] = bytes(found)
    return bytes(data)


def live(duration: str | None = None) -> bytes:
    """Matroska of unknown length, perhaps with a tag that claims one."""
    data = ffmpeg_bytes(tone(1.0, 48000), 48000, "mka", options={"live": "1"}, duration=duration)
    assert b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" in data
    return data


WHOLE: dict[str, Callable[[], bytes]] = {
    "a streamed AU": lambda: patched("au", 8, 255, 255, 255, 255),
    "a FLAC behind a tag": lambda: b"ID3\x04\0\0\0\0\2\0" + bytes(256) + healthy("flac"),
    "an MP3 without a frame count": lambda: ffmpeg_bytes(tone(1.0), 16000, "mp3", options={"write_xing": "0"}),
    "an MP3 that counts a part only": lambda: healthy("sf.mp3", 3.0) + healthy("sf.mp3", 1.0),  # without a new Xing tag
    "a live WebM": lambda: ffmpeg_bytes(tone(1.0, 48000), 48000, "webm", options={"live": "1"}),
    "a live Matroska": live,
    "a duration in milliseconds": lambda: live("1000"),
    "a duration of 400 digits": lambda: live("9" * 400 + ":00:00.0"),
    "an Ogg with much behind it": lambda: healthy("opus") + bytes(70_000),
    "a video": lambda: video_bytes("mp4", sound=True),
    "a video track without a duration": lambda: video_bytes("matroska", sound=True).replace(b"DURATION", b"OTHERTAG"),
    "a FLAC that states no length": lambda: patched("flac", 21, healthy("flac")[21] & 0xF0, 0, 0, 0, 0),
    "an MP3 between tags": lambda: ID3V2 + healthy("mp3", 4.0) + ID3V1,
    "an MP4 in fragments": lambda: ffmpeg_bytes(
        tone(1.0), 16000, "m4a", options={"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    ),
    "a video whose sound ends first": lambda: video_bytes("matroska", sound=True),
}


@pytest.mark.parametrize("name", WHOLE)
def test_it_is_taken_whole(name, tmp_path):
    data = WHOLE[name]()
    seconds = 3.9 if name == "an MP3 that counts a part only" else 0.9
    assert_is_the_tone(load_audio(saved(tmp_path, data)), seconds=seconds, tolerance=0.1)
