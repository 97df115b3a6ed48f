"""Files that must be refused, with the error that each must raise. The command line's tests use them too."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specdec_cli.errors import AudioContentError, AudioDecodeError, AudioError, AudioNotFoundError, TooLongError
from tests.audio.encode import FFMPEG, SNDFILE, healthy, sndfile_bytes, tone, video_bytes, wav_bytes

Content = Callable[[np.random.Generator], bytes]


@dataclass(frozen=True)
class Case:
    """A recipe: the name is unique, and `make` writes the file (or whatever is to be at that path)."""

    name: str
    expected_error: type[AudioError]  # the exact class
    make: Callable[[Path, np.random.Generator], None]


def malformed_files(folder: Path, seed: int) -> dict[Path, type[AudioError]]:
    """Write every case into `folder`, and return what to expect of each path; the same seed gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, case in enumerate(CASES):
        case.make(folder / case.name, np.random.default_rng([seed, index]))
    return {folder / case.name: case.expected_error for case in CASES}


def _cases() -> Iterator[Case]:
    contents = {
        AudioDecodeError: {**_other_files(), **_beginnings(), **_headers()},
        AudioContentError: _contents(),
        TooLongError: {"claims-seven-hours.flac": lambda _: flac_claiming(16000 * 3600 * 7)},
    }
    for error, named in contents.items():
        for name, content in named.items():
            yield Case(name, error, lambda path, rng, content=content: path.write_bytes(content(rng)) and None)
    for name, make in _PATHS.items():
        yield Case(name, AudioNotFoundError, make)


def _beginnings() -> dict[str, Content]:
    """Of each format, so little that nothing decodes."""
    return {f"first-10-bytes.{each}": lambda _, e=each: healthy(e)[:10] for each in (*SNDFILE, *FFMPEG)}


def _other_files() -> dict[str, Content]:
    files: dict[str, Content] = {
        "empty.wav": lambda _: b"",
        "text.wav": lambda _: b"This is not a recording.\n" * 40,
        "playlist.m3u8": lambda _: b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n/etc/hostname\n#EXT-X-ENDLIST\n",
        "playlist.mp3": lambda _: b"ffconcat version 1.0\nfile healthy.wav\n",
        "image.png": lambda rng: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + rng.bytes(3000),
        "archive.zip": lambda rng: b"PK\x03\x04\x14\0\0\0\x08\0" + rng.bytes(3000),
        "zeros.wav": lambda _: bytes(20000),
        "ones.mp3": lambda _: b"\xff" * 20000,
        "silent-video.mp4": lambda _: video_bytes("mp4", sound=False),
    }
    for extension in ("wav", "mp3", "m4a", "bin"):
        files[f"random.{extension}"] = lambda rng: rng.bytes(int(rng.integers(100, 60000)))
    for index, magic in enumerate((b"fLaC", b"OggS", b"RIFF\xff\xff\0\0WAVE", b"\0\0\0\x20ftypM4A ")):
        files[f"random-after-magic-{index}.wav"] = lambda rng, m=magic: m + rng.bytes(8000)
    return files


_PCM = (tone(1.0) * 32767).astype("<i2").tobytes()


def flac_claiming(total: int, seconds: float = 1.0) -> bytes:
    data = bytearray(healthy("flac", seconds))
    data[21:26] = bytes([data[21] & 0xF0 | total >> 32]) + (total & 0xFFFFFFFF).to_bytes(4, "big")  # low 36 bits
    return bytes(data)


def _headers() -> dict[str, Content]:
    return {
        "no-rate.wav": lambda _: wav_bytes(_PCM, rate=0),
        "rate-of-4-gigahertz.wav": lambda _: wav_bytes(_PCM, rate=0xFFFFFFFF),
        "rate-of-1-hertz.wav": lambda _: wav_bytes(_PCM, rate=1),
        "odd-bits.wav": lambda _: wav_bytes(_PCM, bits=13 * 8),
        "unknown-codec.wav": lambda _: wav_bytes(_PCM, tag=0x4242),
        "no-data-chunk.wav": lambda _: wav_bytes(_PCM).replace(b"data", b"junk", 1),
        "no-frames.flac": lambda _: sndfile_bytes(tone(0.0), 16000, "flac"),
        "index-missing.m4a": lambda _: healthy("m4a").partition(b"moov")[0][:-4],
        "tag-longer-than-file.mp3": lambda rng: b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + rng.bytes(500),
    }


def _contents() -> dict[str, Content]:
    def spoiled(value: float, where: object, channels: int = 1) -> Content:
        samples = tone(1.0, channels=channels)
        samples[where] = value
        return lambda _: sndfile_bytes(samples, 16000, "float.wav")

    cases: dict[str, Content] = {
        "one-nan.wav": spoiled(np.nan, (777, 0)),
        "nan-in-one-channel.wav": spoiled(np.nan, (slice(None), 1), channels=2),
        "minus-inf.wav": spoiled(-np.inf, slice(100, 200)),
        "beyond-float32.wav": lambda _: sndfile_bytes(tone(1.0).astype(np.float64) * 1e300, 16000, "double.wav"),
        "one-frame.wav": lambda _: sndfile_bytes(tone(1 / 16000), 16000, "wav"),
    }
    for extension in ("wav", "u8.wav", "flac", "ogg", "sf.opus", "mp3", "m4a", "webm", "aiff"):
        cases[f"silence.{extension}"] = lambda _, e=extension: healthy(e, 1.0, 0.0)
    for extension in ("flac", "ogg", "alac.m4a"):
        cases[f"fifty-milliseconds.{extension}"] = lambda _, e=extension: healthy(e, 0.05)
    return cases


_PATHS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "folder": lambda path, _: path.mkdir(exist_ok=True),
    "folder.wav": lambda path, _: path.mkdir(exist_ok=True),
    "missing folder/clip.wav": lambda _path, _: None,
    "text.wav/clip.wav": lambda _path, _: None,
    "pipe.wav": lambda path, _: os.mkfifo(path),
    "dangling-link.wav": lambda path, _: path.symlink_to("nowhere.wav"),
    "circular-link.wav": lambda path, _: path.symlink_to(path.name),
    "link-to-folder.wav": lambda path, _: path.symlink_to("folder"),
}

CASES: tuple[Case, ...] = tuple(_cases())
"""Every recipe, known without encoding anything; names are unique."""
