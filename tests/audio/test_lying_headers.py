"""Headers that contradict themselves or lack something: the sound is read all the same, or what is wrong is told."""

import io
import struct
from contextlib import ExitStack

import numpy as np
import pytest

from specdec_cli.audio import open_recording
from specdec_cli.audio.bare_samples import from_bare_samples
from tests.audio.encode import healthy, load_audio, tone
from tests.audio.test_formats import saved

SOUND = tone(4.0)
PCM16 = (SOUND * 32767).astype("<i2").tobytes()
PCM32 = (SOUND.astype(np.float64) * 2147483647).astype("<i4")
PCM24 = PCM32.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
PCM8 = (SOUND * 127 + 128).astype(np.uint8).tobytes()
EXTENSIBLE = 0xFFFE


def wav(
    data: bytes, block: int, bits: int | None, tag: int = 1, channels: int = 1, after: bytes = b"", more: bytes = b""
) -> bytes:
    fmt = struct.pack("<HHIIH", tag, channels, 16000, 16000 * block, block)
    fmt += b"" if bits is None else struct.pack("<H", bits) + more
    body = b"WAVEJUNK" + struct.pack("<I", 28) + bytes(28) + b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"data" + struct.pack("<I", len(data)) + data + after
    return b"RIFF" + struct.pack("<I", len(body)) + body


EXTENSION = struct.pack("<HHI", 22, 32, 4) + bytes.fromhex("0100000000001000800000aa00389b71")  # of integers


def au(encoding: int, data: bytes) -> bytes:
    return b".snd" + struct.pack(">5I", 24, 0, encoding, 16000, 1) + data


LIST = b"LIST\4\0\0\0INFO"
UNCOUNTED = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data\xff\xff\xff\xff"
LACKING = {
    "16 bits": wav(PCM16, 2, None),
    "24 bits": wav(PCM24, 3, None),
    "32 bits": wav(PCM32.tobytes(), 4, None),
    "8 bits": wav(PCM8, 1, None),
    "floats": wav(SOUND.astype("<f4").tobytes(), 4, None, tag=3),
    "doubles": wav(SOUND.astype("<f8").tobytes(), 8, None, tag=3),
    "two channels": wav(np.repeat(np.frombuffer(PCM16, "<i2"), 2).tobytes(), 4, None, channels=2),
    "0 bits": wav(PCM16, 2, 0),
    "a chunk behind it": wav(PCM16, 2, None, after=LIST),
    "24 bits in 4 bytes": wav(PCM32.tobytes(), 4, 24),
    "no extension": wav(PCM16, 2, 16, tag=EXTENSIBLE),
    "an RF64 without a size": b"".join(
        (b"RF64\0\0\0\0WAVEds64", struct.pack("<IQQQI", 28, *[0] * 4), UNCOUNTED, PCM16)
    ),
    "floats that are tagged as integers": wav(SOUND.astype("<f4").tobytes(), 4, 32),
    "the same with an extension": wav(SOUND.astype("<f4").tobytes(), 4, 32, tag=EXTENSIBLE, more=EXTENSION),
    "an AU of 16 bits": au(3, np.frombuffer(PCM16, "<i2").astype(">i2").tobytes()),
    "an AU of floats": au(6, SOUND.astype(">f4").tobytes()),
}


@pytest.mark.parametrize("name", LACKING)
def test_sound_behind_a_lacking_header_is_read(name, tmp_path):
    samples, recording = load_audio(saved(tmp_path, LACKING[name]))
    assert recording.duration_s == 4.0
    assert np.abs(samples - SOUND[:, 0]).max() < 0.012
    (told,) = recording.warnings
    assert "has a header that" in told
    part = open_recording(saved(tmp_path, LACKING[name]), window_s=30.0, start_s=3.0)
    assert np.allclose(next(part.pieces()).samples, samples[48000:], atol=1e-6)


@pytest.mark.parametrize("level", [1.0, 0.3, 1e-3, 1e-8])
def test_integers_of_32_bits_are_no_floats(level, tmp_path):
    samples = (np.random.default_rng(1).uniform(-level, level, 64000) * 2147483647).astype("<i4")
    sound = np.append(samples, np.arange(-500, 500)).astype("<i4")
    with io.FileIO(saved(tmp_path, wav(sound.tobytes(), 4, 32))) as file:
        assert from_bare_samples("", file, ExitStack(), 0.0, None) is None


def test_floats_between_pauses_and_with_faint_ends_are_told(tmp_path):
    sound = np.concatenate([np.zeros(64000), SOUND[:, 0], np.zeros(64000), SOUND[:2000, 0] * 1e-20]).astype("<f4")
    _, recording = load_audio(saved(tmp_path, wav(sound.tobytes(), 4, 32)))
    assert "but they look like floats" in recording.warnings[0]


@pytest.mark.parametrize(("block", "bits"), [(2, 8), (2, 32), (1, 16), (4, 16)])
def test_a_header_that_contradicts_itself_is_told(block, bits, tmp_path):
    _, recording = load_audio(saved(tmp_path, wav(PCM16, block, bits)))
    assert f"contradicts itself: {bits} bits per sample in blocks of {block} bytes" in recording.warnings[0]


def test_a_caf_that_counts_no_sound_is_read_to_the_end(tmp_path):
    data = healthy("caf", 4.0)
    at = data.index(b"data") + 4
    recording = open_recording(saved(tmp_path, data[:at] + bytes(8) + data[at + 8 :]), window_s=30.0)
    assert (recording.duration_s, recording.warnings) == (pytest.approx(4.0, abs=0.01), ())


def tag(claimed: int, held: int, picture: bytes = b"") -> bytes:
    size = bytes(claimed >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x04\0\0" + size + picture + bytes(held - len(picture))


@pytest.mark.parametrize("extension", ["mp3", "sf.mp3"])
@pytest.mark.parametrize("claimed", [100, 700, 3000, 5000])
def test_a_tag_that_claims_sound_or_too_little_is_told(extension, claimed, tmp_path):
    _, recording = load_audio(saved(tmp_path, tag(claimed, 200, b"TIT2" * 50) + healthy(extension, 4.0)))
    assert "has an ID3 tag that does not end where sound begins" in " ".join(recording.warnings)


@pytest.mark.parametrize("picture", [b"", b"\xff\xfb\x90\x64" * 60, healthy("mp3", 0.5)])
def test_an_honest_tag_is_passed_over(picture, tmp_path):
    size = 6000 + len(picture)
    samples, recording = load_audio(saved(tmp_path, tag(size, size, picture) + healthy("mp3", 4.0)))
    assert np.array_equal(samples, load_audio(saved(tmp_path, healthy("mp3", 4.0)))[0])
    assert recording.warnings == ()
