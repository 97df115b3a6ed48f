"""Healthy files that state no length, or end in tags, must not be taken for cut ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from specdec_cli.errors import AudioDecodeError
from tests.audio.encode import ffmpeg_bytes, healthy, load_audio, tone, video_bytes
from tests.audio.test_formats import assert_is_the_tone, saved

PCM = (tone(1.0) * 32767).astype("<i2").tobytes()
ID3V1 = b"TAG" + bytes(125)


def wav(riff_size: int, data_size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    fmt = b"fmt \x10\0\0\0" + struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
    head = b"RIFF" + struct.pack("<I", riff_size) + b"WAVE" + fmt
    return head + before + b"data" + struct.pack("<I", data_size) + PCM + after


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF - 36, 0xFFFFFFFF - 36])
@pytest.mark.parametrize("riff_size", [0, 0xFFFFFFFF, 36 + len(PCM)])
def test_a_streamed_wav_loads_whole(size: int, riff_size: int, tmp_path: Path) -> None:
    loaded = load_audio(saved(tmp_path, wav(riff_size, size)))
    assert_is_the_tone(loaded)
    assert loaded[1].duration_s == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"LIST\x04\0\0\0INFO"),
        (b"", b"LIST\xff\0\0\0INFO"),  # tags cut short: the audio is whole
        (b"", ID3V1),
        (b"LIST\x05\0\0\0INFO\0\0", b""),  # odd length and its padding byte
        (b"JUNK" + struct.pack("<I", 3000) + bytes(3000), b""),
        (b"bext" + struct.pack("<I", 602) + bytes(602), b"id3 \x02\0\0\0\0\0"),
    ],
)
def test_other_chunks_around_the_samples(before: bytes, after: bytes, tmp_path: Path) -> None:
    data = wav(36 + len(before) + len(PCM) + len(after), len(PCM), before, after)
    assert load_audio(saved(tmp_path, data))[1].duration_s == 1.0


def test_a_streamed_au(tmp_path: Path) -> None:
    data = bytearray(healthy("au"))
    data[8:12] = b"\xff\xff\xff\xff"
    assert_is_the_tone(load_audio(saved(tmp_path, bytes(data))))


def test_a_flac_that_states_no_length(tmp_path: Path) -> None:
    data = bytearray(healthy("flac"))
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])
    assert_is_the_tone(load_audio(saved(tmp_path, bytes(data))))
    with pytest.raises(AudioDecodeError):
        load_audio(saved(tmp_path, bytes(data[: len(data) * 2 // 3])))


@pytest.mark.parametrize("size", [256, 1 << 21])
def test_a_flac_behind_an_id3_tag(size: int, tmp_path: Path) -> None:
    tag = b"ID3\x04\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0)) + bytes(size)
    assert_is_the_tone(load_audio(saved(tmp_path, tag + healthy("flac"))))


@pytest.mark.parametrize("extension", ["mp3", "sf.mp3"])
def test_tags_around_an_mp3(extension: str, tmp_path: Path) -> None:
    tag = b"ID3\x03\0\0\0\0\x02\0" + bytes(256)
    data = tag + healthy(extension, 4.0)
    assert_is_the_tone(load_audio(saved(tmp_path, data + ID3V1)), tolerance=0.07)
    with pytest.raises(AudioDecodeError, match=r"cut short: its header promises 4\.0 s, but it ends after [23]\.\d s"):
        load_audio(saved(tmp_path, data[: len(data) * 3 // 4]))


def test_an_mp3_without_a_frame_count(tmp_path: Path) -> None:
    data = ffmpeg_bytes(tone(1.0), 16000, "mp3", options={"write_xing": "0"})
    assert b"Xing" not in data
    assert b"Info" not in data
    assert_is_the_tone(load_audio(saved(tmp_path, data)), tolerance=0.07)


@pytest.mark.parametrize("flags", ["frag_keyframe+empty_moov+default_base_moof", "faststart"])
def test_fragmented_and_web_mp4(flags: str, tmp_path: Path) -> None:
    data = ffmpeg_bytes(tone(1.0), 16000, "m4a", options={"movflags": flags})
    assert_is_the_tone(load_audio(saved(tmp_path, data)))
    with pytest.raises(AudioDecodeError, match="cut short"):
        load_audio(saved(tmp_path, data[: len(data) * 2 // 3]))


@pytest.mark.parametrize("extension", ["webm", "mka"])
def test_a_live_matroska(extension: str, tmp_path: Path) -> None:
    data = ffmpeg_bytes(tone(1.0, 48000), 48000, extension, options={"live": "1"})
    assert b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" in data  # a segment of unknown length
    assert_is_the_tone(load_audio(saved(tmp_path, data)))  # it declares no length, so that a cut one passes


def test_an_mp3_whose_tag_counts_a_part_only(tmp_path: Path) -> None:
    joined = healthy("sf.mp3", 3.0) + healthy("sf.mp3", 1.0)  # without a new Xing tag
    samples, _ = load_audio(saved(tmp_path, joined))
    assert 3.9 < len(samples) / 16000 < 4.4


def test_the_sound_of_a_matroska_video_may_end_before_its_pictures(tmp_path: Path) -> None:
    data = video_bytes("matroska", sound=True)
    assert b"DURATION" in data
    load_audio(saved(tmp_path, data))
    load_audio(saved(tmp_path, data.replace(b"DURATION", b"OTHERTAG")))
    with pytest.raises(AudioDecodeError, match="cut short"):
        load_audio(saved(tmp_path, data[: len(data) // 2]))


@pytest.mark.parametrize("size", [3, 128, 70_000])
def test_an_ogg_with_something_behind_it(size: int, tmp_path: Path) -> None:
    assert_is_the_tone(load_audio(saved(tmp_path, healthy("opus", 4.0) + bytes(size))), seconds=4.0)


def test_a_matroska_that_claims_a_duration_of_400_digits(tmp_path: Path) -> None:
    claimed = "9" * 400 + ":00:00.0"
    data = ffmpeg_bytes(tone(1.0, 48000), 48000, "mka", options={"live": "1"}, duration=claimed)
    assert claimed.encode() in data
    assert_is_the_tone(load_audio(saved(tmp_path, data)))  # as where no length is declared
