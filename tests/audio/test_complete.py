"""Healthy files that state no length, or end in tags, must not be taken for cut ones; and cut ones are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.errors import AudioDecodeError
from tests.audio.encode import ffmpeg_bytes, healthy, load_audio, tone, video_bytes, wav_bytes
from tests.audio.test_formats import assert_is_the_tone, saved

PCM = (tone(1.0) * 32767).astype("<i2").tobytes()
ID3V1 = b"TAG" + bytes(125)
ID3V2 = b"ID3\x03\0\0\0\0\x02\0" + bytes(256)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF - 36, 0xFFFFFFFF - 36])
@pytest.mark.parametrize("riff_size", [0, 0xFFFFFFFF, 36 + len(PCM)])
def test_a_streamed_wav_loads_whole(size: int, riff_size: int, tmp_path: Path) -> None:
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
def test_other_chunks_around_the_samples(before: bytes, after: bytes, tmp_path: Path) -> None:
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
    "a duration of 400 digits": lambda: live("9" * 400 + ":00:00.0"),
    "an Ogg with much behind it": lambda: healthy("opus") + bytes(70_000),
    "a video track without a duration": lambda: video_bytes("matroska", sound=True).replace(b"DURATION", b"OTHERTAG"),
}
WHOLE_OR_REFUSED: dict[str, Callable[[], bytes]] = {
    "a FLAC that states no length": lambda: patched("flac", 21, healthy("flac")[21] & 0xF0, 0, 0, 0, 0),
    "an MP3 between tags": lambda: ID3V2 + healthy("mp3", 4.0) + ID3V1,
    "an MP4 in fragments": lambda: ffmpeg_bytes(
        tone(1.0), 16000, "m4a", options={"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    ),
    "a video whose sound ends first": lambda: video_bytes("matroska", sound=True),
}


@pytest.mark.parametrize("name", [*WHOLE, *WHOLE_OR_REFUSED])
def test_it_is_taken_whole(name: str, tmp_path: Path) -> None:
    data = (WHOLE | WHOLE_OR_REFUSED)[name]()
    seconds = 3.9 if name == "an MP3 that counts a part only" else 0.9
    assert_is_the_tone(load_audio(saved(tmp_path, data)), seconds=seconds, tolerance=0.1)


@pytest.mark.parametrize("name", WHOLE_OR_REFUSED)
def test_it_is_refused_if_a_third_is_missing(name: str, tmp_path: Path) -> None:
    data = WHOLE_OR_REFUSED[name]()
    with pytest.raises(AudioDecodeError, match="cut short"):
        load_audio(saved(tmp_path, data[: len(data) * 2 // 3]))
