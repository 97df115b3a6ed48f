"""Damage that decoders pass over is told where the format has checksums or numbers; intact files are not accused."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import Recording, open_recording
from specdec_cli.errors import AudioError
from tests.audio.encode import healthy, load_audio
from tests.audio.test_formats import saved
from tests.tiers import few

SECONDS = 8.0
CHECKED = ("flac", "24.flac", "mka", "ogg", "sf.opus", "opus")  # formats whose pages or frames have checksums
DAMAGES: dict[str, Callable[[bytearray, int], None]] = {
    "a flipped bit": lambda data, at: data.__setitem__(at, data[at] ^ 4),
    "other bytes": lambda data, at: data.__setitem__(slice(at, at + 200), random.Random(at).randbytes(200)),
    "missing bytes": lambda data, at: data.__delitem__(slice(at, at + 500)),
    "added bytes": lambda data, at: data.__setitem__(slice(at, at), random.Random(at).randbytes(500)),
    "zeros": lambda data, at: data.__setitem__(slice(at, at + 4096), bytes(min(4096, len(data) - at))),
}


def opened(folder: Path, data: bytes, **how: float) -> Recording:
    return open_recording(saved(folder, data), window_s=30.0, **how)


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("extension", few(CHECKED, 2))
def test_damage_in_the_middle_is_told(extension, name, tmp_path):
    intact, whole = load_audio(saved(tmp_path, healthy(extension, SECONDS)))
    assert whole.warnings == ()
    for place in (0.3, 0.45, 0.6, 0.7):
        data = bytearray(healthy(extension, SECONDS))
        DAMAGES[name](data, int(place * len(data)))
        try:
            samples, recording = load_audio(saved(tmp_path, bytes(data)))
        except AudioError:
            continue
        same = len(samples) == len(intact) and np.allclose(samples, intact, atol=1e-3)
        assert same or "damaged" in " ".join(recording.warnings), place


@pytest.mark.parametrize("extension", ["flac", "24.flac"])
def test_what_follows_a_damaged_frame_of_flac_keeps_its_time(extension, tmp_path):
    data = bytearray(healthy(extension, SECONDS))
    data[len(data) // 2] ^= 4
    samples, recording = load_audio(saved(tmp_path, bytes(data)))
    intact, _ = load_audio(saved(tmp_path, healthy(extension, SECONDS)))
    assert recording.duration_s == SECONDS
    differs = np.flatnonzero(np.abs(samples - intact) > 1e-3)
    assert 0 < differs[-1] - differs[0] < 16000
    assert np.abs(samples).max() < 0.31  # no frame with a wrong checksum is played


def pages(extension: str) -> list[bytes]:
    return [b"OggS" + rest for rest in healthy(extension, SECONDS).split(b"OggS")[1:]]


@pytest.mark.parametrize("extension", ["opus", "sf.opus"])
def test_a_page_that_is_missing_is_told_but_not_the_end_of_a_live_stream(extension, tmp_path):
    every = pages(extension)
    gone = opened(tmp_path, b"".join(every[:4] + every[5:]))
    assert "1 of its pages is damaged or missing" in gone.warnings[0]
    assert gone.duration_s == pytest.approx(SECONDS, abs=0.1)
    assert "2 of its pages are" in opened(tmp_path, b"".join(every[:3] + every[5:])).warnings[0]
    stopped, joined_late = b"".join(every[:-2]), b"".join(every[:2] + every[4:])
    assert opened(tmp_path, stopped).warnings == ()
    assert "pages" not in " ".join(opened(tmp_path, joined_late).warnings)
    assert opened(tmp_path, b"".join(every + every)).warnings == ()


@pytest.mark.ci
def test_a_file_of_many_windows_is_checked(tmp_path):
    whole = healthy("opus", SECONDS)
    many = bytearray(whole * 40)
    assert len(many) > 3 << 20
    assert opened(tmp_path, bytes(many), piece_s=30.0).warnings == ()
    for at in (1 << 20, (3 << 20) - 7):
        many[at] ^= 1
    assert "2 of its pages are damaged or missing" in opened(tmp_path, bytes(many), piece_s=30.0).warnings[0]
