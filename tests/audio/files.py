"""Recordings for the tests: how the bytes of each are made, and its seconds, what is said of it, or its error."""

import gzip
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specdec_cli.errors import AudioContentError, AudioDecodeError, AudioError, AudioNotFoundError, TooLongError
from tests.audio.encode import (
    FFMPEG,
    PADDED,
    SNDFILE,
    Samples,
    clocked,
    encrypted,
    ffmpeg_bytes,
    healthy,
    sndfile_bytes,
    tone,
    wav_bytes,
)

Content = Callable[[], bytes]


@dataclass(frozen=True)
class Read:
    """A recording that is read."""

    make: Content
    seconds: float
    said: str = ""  # in its warnings; empty: there is none
    within_s: float = 0.1
    mixed: Samples | None = None  # what is read of it, [n, 1]; None: the tone


@dataclass(frozen=True)
class Refused:
    """A recording that is refused."""

    make: Content
    error: type[AudioError] = AudioDecodeError  # the exact class
    said: str = ""  # in its message


PCM = (tone(4.0) * 32767).astype("<i2").tobytes()
HALF = len(PCM) // 2
LIST = b"LIST\4\0\0\0INFO"
ID3 = b"ID3\x04\0\0\0\0\2\0" + bytes(256)
TAGS = {
    "an APE tag": b"APETAGEX" + bytes(24) + bytes(range(256)) * 300 + b"APETAGEX" + bytes(24),
    "Lyrics3 and ID3v1": b"LYRICSBEGIN" + b"x" * 300 + b"000311LYRICS200" + b"TAG" + bytes(125),
    "an ID3 tag": ID3,
    "zeros": bytes(60_000),
    "a web page": b"<html><body>gone</body></html>" * 20,
}
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}


def patched(extension: str, at: int, found: bytes, seconds: float = 4.0) -> bytes:
    """A healthy file with other bytes in its header."""
    data = healthy(extension, seconds)
    return data[:at] + found + data[at + len(found) :]


def flac_claiming(total: int, seconds: float = 1.0) -> bytes:
    """A FLAC whose header counts `total` samples."""
    kept = healthy("flac", seconds)[21] & 0xF0
    return patched("flac", 21, bytes([kept | total >> 32]) + (total & 0xFFFFFFFF).to_bytes(4, "big"), seconds)


def copy_protected() -> bytes:
    """An MP4 as shops sold it: the track's kind says so, and what it holds is scrambled."""
    data = healthy("m4a")
    at = data.index(b"mdat")
    size = int.from_bytes(data[at - 4 : at], "big") - 8
    scrambled = np.random.default_rng(0).bytes(size)
    return (data[: at + 4] + scrambled + data[at + 4 + size :]).replace(b"mp4a", b"drms", 1)


def live(container: str, duration: str | None = None) -> bytes:
    """Matroska of unknown length, perhaps with a tag that claims one."""
    return ffmpeg_bytes(tone(4.0, 48000), 48000, container, options={"live": "1"}, duration=duration)


def damaged(extension: str, with_: bytes, length: int = 0, seconds: float = 8.0, at: float = 0.45) -> bytes:
    """A file with other bytes in its middle, in the place of `length` bytes."""
    data, place = healthy(extension, seconds), int(at * len(healthy(extension, seconds)))
    return data[:place] + with_ + data[place + length :]


def without_pages(first: int, behind: int) -> bytes:
    """An Ogg without some of its pages."""
    pages = [b"OggS" + rest for rest in healthy("opus", 8.0).split(b"OggS")[1:]]
    return b"".join(pages[:first] + pages[behind:])


def spoiled(value: float, where: object, channels: int = 1) -> Content:
    """A second of sound with other samples in places."""
    samples = tone(1.0, channels=channels)
    samples[where] = value
    return lambda: sndfile_bytes(samples, 16000, "float.wav")


def caf_counting(size: bytes) -> bytes:
    """A CAF that counts so many bytes of sound."""
    return patched("caf", healthy("caf", 4.0).index(b"data") + 4, size)


def together(*channels: Samples) -> bytes:
    """Channels side by side, six as a FLAC of 5.1, others as a WAV of floats."""
    samples = np.concatenate(channels, axis=1)
    return sndfile_bytes(samples, 16000, "flac" if len(channels) == 6 else "float.wav")


def other_flac() -> bytes:
    """A FLAC of 44.1 kHz."""
    return sndfile_bytes(tone(2.0, 44100), 44100, "flac")


def _healthy() -> Iterator[tuple[str, Read]]:
    for extension in (*SNDFILE, *FFMPEG):
        padding_s = 0.25 if extension in PADDED else 0.02
        yield f"clip.{extension}", Read(lambda e=extension: healthy(e), 1.0, within_s=padding_s)
    for size in (0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF - 36, 0xFFFFFFFF - 36):
        for riff in (0, 0xFFFFFFFF, 36 + len(PCM)):
            yield f"a WAV of a pipe, {size:x} of {riff:x}", Read(lambda s=size, r=riff: wav_bytes(PCM, s, riff=r), 4.0)
    for name, tag in TAGS.items():
        for extension in ("mp3", "sf.mp3", "flac", "ogg", "opus", "wav"):
            if (extension, name) not in (("ogg", "an APE tag"), ("opus", "an APE tag")):  # so large a tag is told
                yield f"{extension} before {name}", Read(lambda e=extension, t=tag: healthy(e, 4.0) + t, 4.0)


CHUNKS = {
    "a chunk cut short": {"after": b"LIST\xff\0\0\0INFO"},
    "an odd chunk": {"before": b"LIST\x05\0\0\0INFO\0\0"},
    "a large chunk": {"before": b"JUNK" + struct.pack("<I", 3000) + bytes(3000)},
    "chunks on both sides": {"before": b"bext" + struct.pack("<I", 602) + bytes(602), "after": b"id3 \x02\0\0\0\0\0"},
    "a long chunk behind": {"after": b"LIST" + (90000).to_bytes(4, "little") + bytes(90000)},
    "two bytes fewer": {"claimed": len(PCM) + 2},
}
JOINED = ("ogg", "opus", "sf.opus", "flac")
TONE, SILENT, HUM = tone(2.0), tone(2.0, amplitude=0.0), tone(2.0, hz=40.0, amplitude=0.9)
HIGHER = tone(2.0, hz=660.0)
NOISE = np.random.default_rng(0).normal(0, 3e-4, TONE.shape).astype(np.float32)
CLICK = SILENT + np.pad(tone(0.05), ((0, len(SILENT) - 800), (0, 0)))
REMARK = SILENT + np.pad(tone(0.5, hz=660.0, amplitude=0.03), ((0, len(SILENT) - 8000), (0, 0)))
CHANNELS: list[tuple[list[Samples], Samples, str]] = [  # six are 5.1: front left and right, centre, LFE, back both
    ([TONE, SILENT], TONE, "channel 2 is silent; channel 1 is read"),
    ([NOISE, TONE], TONE, "channel 1 is silent; channel 2 is read"),
    ([TONE, CLICK], TONE, "channel 2 is silent"),
    ([TONE, 10 * NOISE], TONE, "channel 2 is silent"),  # an open microphone, 37 dB below
    ([TONE, 40 * NOISE], (TONE + 40 * NOISE) / 2, ""),
    ([TONE, REMARK], (TONE + REMARK) / 2, ""),
    ([TONE, HIGHER], (TONE + HIGHER) / 2, ""),
    ([TONE, TONE], TONE, ""),
    ([TONE, -0.05 * TONE], 0.475 * TONE, ""),
    ([TONE, -TONE], TONE, "channels 1 and 2 are inverted copies (their correlation is -1.00); channel 1 is"),
    ([0.97 * TONE, -TONE], -TONE, "channel 2 is read"),
    ([TONE, -0.5 * TONE], TONE, "inverted copies"),
    ([TONE, -TONE, TONE, -TONE], TONE, "channels 1, 2, 3 and 4 cancel each other in their mean; channel 1"),
    ([TONE, SILENT, TONE], TONE, "channel 2 is silent; channels 1 and 3 are mixed"),
    ([SILENT, SILENT, TONE, HUM, SILENT, SILENT], TONE, "channel 4 is for low frequencies (LFE) and chan"),
    ([TONE, TONE, TONE, HUM, TONE, TONE], TONE, "(LFE); channels 1, 2, 3, 5 and 6 are mixed"),
]

READ: dict[str, Read] = {
    **dict(_healthy()),
    **{f"a WAV with {name}": Read(lambda h=how: wav_bytes(PCM, **h), 4.0) for name, how in CHUNKS.items()},
    **{
        f"channels, row {number}": Read(lambda c=channels: together(*c), 2.0, said, mixed=mixed)
        for number, (channels, mixed, said) in enumerate(CHANNELS, 1)
    },
    **{f"joined {each}": Read(lambda e=each: healthy(e, 2.0) + healthy(e, 2.0, 0.2), 4.0, "", 0.2) for each in JOINED},
    "joined long flac": Read(lambda: healthy("flac", 12.0) + healthy("flac", 2.0, 0.2), 14.0),
    "joined mp3": Read(lambda: healthy("mp3", 2.0) + healthy("mp3", 2.0), 4.0, "1 of its packets does not", 0.2),
    "joined tagged mp3": Read(lambda: 2 * (ID3 + healthy("mp3", 2.0)), 4.0, "1 of its packets does not", 0.2),
    "joined flac of another rate": Read(lambda: healthy("flac", 2.0) + other_flac(), 4.0, "timestamps that leap", 0.2),
    "joined Opus and Vorbis": Read(
        lambda: healthy("opus", 2.0) + healthy("ogg", 3.0), 2.0, "what follows 2.0 s cannot"
    ),
    "joined WAV": Read(lambda: wav_bytes(PCM) + wav_bytes(PCM), 4.0, "counts 4 s; about 4.0 s more may follow"),
    "a wav behind a tag": Read(lambda: ID3 + healthy("wav", 4.0), 4.0),
    "a wav behind two tags": Read(lambda: ID3 + ID3 + healthy("wav", 4.0), 4.0),
    "an aiff behind a tag": Read(lambda: ID3 + healthy("aiff", 4.0), 4.0),
    "a flac behind a tag": Read(lambda: ID3 + healthy("flac", 4.0), 4.0),
    "an mp3 behind a tag with a picture": Read(
        lambda: b"ID3\x04\0\0\0\0\x2f\x30" + b"\xff\xfb\x90\x64" * 1500 + bytes(64) + healthy("mp3", 4.0), 4.0
    ),
    "a caf of unknown size": Read(lambda: caf_counting(b"\xff" * 8), 4.0),
    "a caf of no size": Read(lambda: caf_counting(bytes(8)), 4.0),
    "an rf64": Read(lambda: healthy("rf64", 4.0), 4.0),
    "an au of a pipe": Read(lambda: patched("au", 8, b"\xff" * 4), 4.0),
    "a flac that counts nothing": Read(lambda: flac_claiming(0, 4.0), 4.0),
    "a flac that counts less": Read(lambda: flac_claiming(4000, 4.0), 4.0),
    "a flac that counts more": Read(lambda: flac_claiming(48000), 1.0, "cut short: it ends after 1.0 of 3.0 s"),
    "a WAV that counts half": Read(lambda: wav_bytes(PCM, HALF), 2.0, "counts 2 s; about 2.0 s more may follow"),
    "a WAV of half its size": Read(lambda: wav_bytes(PCM, HALF, riff=HALF + 36), 2.0, "about 2.0 s more"),
    "an mp3 without a count": Read(
        lambda: ffmpeg_bytes(tone(4.0), 16000, "mp3", options={"write_xing": "0"}), 4.0, "", 0.2
    ),
    "an mp3 that counts less": Read(lambda: healthy("sf.mp3", 3.0) + healthy("sf.mp3", 1.0), 4.0, "", 0.3),
    "a live WebM": Read(lambda: live("webm"), 4.0),
    "a live Matroska": Read(lambda: live("mka"), 4.0),
    "a duration in milliseconds": Read(lambda: live("mka", "1000"), 4.0),
    "a duration of 400 digits": Read(lambda: live("mka", "9" * 400 + ":00:00.0"), 4.0),
    "a video": Read(lambda: clocked("mp4", "aac", [0.0], picture=True), 1.0),
    "a video whose sound ends last": Read(lambda: clocked("matroska", "aac", [0.0, 1.0], picture=True), 2.0),
    "an MP4 in fragments": Read(lambda: ffmpeg_bytes(tone(4.0), 16000, "m4a", options=FRAGMENTS), 4.0, "", 0.2),
    "a damaged flac": Read(lambda: damaged("flac", b"\0" * 4, 4), 8.0, "damaged or cut short: parts of it do not"),
    "a flac that lacks bytes": Read(lambda: damaged("flac", b"", 500), 8.0, "damaged"),
    "a damaged long flac": Read(lambda: damaged("flac", b"\0" * 4, 4, 20.0), 20.0, "parts of it do not decode"),
    "a damaged Matroska": Read(lambda: damaged("mka", b"\0" * 4, 4), 8.0, "1 of its packets does not decode"),
    "a damaged m4a": Read(lambda: damaged("m4a", bytes(4096), 4096), 8.0, "of its packets do not decode"),
    "an Ogg without a page": Read(lambda: without_pages(4, 5), 8.0, "holds no sound for 1.0 s in between"),
    "an Ogg without two pages": Read(lambda: without_pages(3, 5), 8.0, "holds no sound for 2.0 s in between"),
    "an Ogg without its end": Read(lambda: without_pages(8, 99), 6.0, "", 0.5),
    "a gap in a WebM": Read(lambda: clocked("webm", "libopus", [0.0, 4.0]), 5.0, "no sound for 3.0 s in between"),
    "a gap in an MP4": Read(lambda: clocked("mp4", "aac", [0.0, 4.0]), 5.0, "no sound for 3.0 s in between"),
    "no gap": Read(lambda: clocked("matroska", "flac", [0.0, 1.0]), 2.0),
    "a NUT": Read(lambda: clocked("nut", "pcm_s16le", [0.0]), 1.0),
}
"""Name -> a recording that is read."""


def _refused() -> Iterator[tuple[str, Refused]]:
    for extension in (*SNDFILE, *FFMPEG):
        yield f"first-10-bytes.{extension}", Refused(lambda e=extension: healthy(e)[:10])
    for extension in ("wav", "mp3", "m4a", "bin"):
        rng = np.random.default_rng(len(extension) + ord(extension[0]))
        yield f"random.{extension}", Refused(lambda r=rng: r.bytes(int(r.integers(100, 60000))))
    for index, magic in enumerate((b"fLaC", b"OggS", b"RIFF\xff\xff\0\0WAVE", b"\0\0\0\x20ftypM4A ")):
        yield f"random-after-magic-{index}.wav", Refused(lambda m=magic: m + np.random.default_rng(0).bytes(8000))
    for extension in ("wav", "u8.wav", "flac", "ogg", "sf.opus", "mp3", "m4a", "webm", "aiff"):
        yield f"silence.{extension}", Refused(lambda e=extension: healthy(e, 1.0, 0.0), AudioContentError, "is silent")
    for rate in (11025, 16000, 44100, 48000):
        offset = tone(1.0, rate) * 0 + np.float32(0.7)
        silent = Refused(lambda o=offset, r=rate: sndfile_bytes(o, r, "wav"), AudioContentError, "is silent")
        yield f"a-constant-offset-{rate}.wav", silent
    for extension in ("flac", "ogg", "alac.m4a"):
        yield f"short.{extension}", Refused(lambda e=extension: healthy(e, 0.05), AudioContentError, "is too short")


REFUSED: dict[str, Refused] = {
    **dict(_refused()),
    "empty.wav": Refused(lambda: b"", said="is empty"),
    "text.wav": Refused(lambda: b"This is not a recording.\n" * 40),
    "playlist.m3u8": Refused(lambda: b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n/etc/hostname\n#EXT-X-ENDLIST\n"),
    "playlist.mp3": Refused(lambda: b"ffconcat version 1.0\nfile healthy.wav\n"),
    "image.png": Refused(lambda: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + np.random.default_rng(0).bytes(3000)),
    "zeros.wav": Refused(lambda: bytes(20000)),
    "ones.mp3": Refused(lambda: b"\xff" * 20000),
    "a-video-without-sound.mp4": Refused(
        lambda: clocked("mp4", "aac", [], picture=True, tracks=0), said="it holds no sound"
    ),
    "pointer.wav": Refused(lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\n", said="of Git LFS"),
    "page.mp3": Refused(lambda: b"\n<!DOCTYPE html><html>404</html>", said="a web page"),
    "archive.zip": Refused(lambda: b"PK\3\4" + bytes(60), said="a ZIP archive"),
    "packed.wav.gz": Refused(lambda: gzip.compress(PCM), said="packed with gzip"),
    "header-alone.wav": Refused(lambda: wav_bytes(b""), said="a header and no sound"),
    "header-of-a-pipe.wav": Refused(lambda: wav_bytes(b"", 0xFFFFFFFF), said="a header and no sound"),
    "half.m4a": Refused(lambda: healthy("m4a", 4.0)[:9000], said="damaged or cut short"),
    "start.flac": Refused(lambda: healthy("flac", 4.0)[:100], said="damaged or cut short"),
    "no-channels.wav": Refused(lambda: wav_bytes(bytes(32000), channels=0), said="format or codec is not known"),
    "counts-next-to-nothing.wav": Refused(lambda: wav_bytes(PCM, 100), said="counts 0.00313 s; about 4.0 s more"),
    "no-rate.wav": Refused(lambda: wav_bytes(PCM, rate=0)),
    "rate-of-4-gigahertz.wav": Refused(lambda: wav_bytes(PCM, rate=0xFFFFFFFF)),
    "rate-of-1-hertz.wav": Refused(lambda: wav_bytes(PCM, rate=1)),
    "odd-bits.wav": Refused(lambda: wav_bytes(PCM, bits=13 * 8)),
    "unknown-codec.wav": Refused(lambda: wav_bytes(PCM, tag=0x4242)),
    "no-data-chunk.wav": Refused(lambda: wav_bytes(PCM).replace(b"data", b"junk", 1)),
    "no-frames.flac": Refused(lambda: sndfile_bytes(tone(0.0), 16000, "flac")),
    "index-missing.m4a": Refused(lambda: healthy("m4a").partition(b"moov")[0][:-4]),
    "tag-longer-than-file.mp3": Refused(lambda: b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + np.random.default_rng(0).bytes(500)),
    "encrypted.mp4": Refused(encrypted, said="is encrypted"),
    "copy-protected.m4a": Refused(copy_protected, said="is encrypted"),
    "one-nan.wav": Refused(spoiled(np.nan, (777, 0)), AudioContentError, "NaN"),
    "nan-in-one-channel.wav": Refused(spoiled(np.nan, (slice(None), 1), 2), AudioContentError, "NaN"),
    "minus-inf.wav": Refused(spoiled(-np.inf, slice(100, 200)), AudioContentError, "infinite"),
    "beyond-float32.wav": Refused(
        lambda: sndfile_bytes(tone(1.0).astype(np.float64) * 1e300, 16000, "double.wav"), AudioContentError
    ),
    "one-frame.wav": Refused(lambda: sndfile_bytes(tone(1 / 16000), 16000, "wav"), AudioContentError, "too short"),
    "claims-seven-hours.flac": Refused(lambda: flac_claiming(16000 * 3600 * 7), TooLongError, "too long"),
}
"""Name of a file -> a recording that is refused."""

PLACES: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(exist_ok=True),
    "folder.wav": lambda path: path.mkdir(exist_ok=True),
    "missing folder/clip.wav": lambda _: None,
    "text.wav/clip.wav": lambda _: None,
    "pipe.wav": os.mkfifo,
    "dangling-link.wav": lambda path: path.symlink_to("nowhere.wav"),
    "circular-link.wav": lambda path: path.symlink_to(path.name),
    "link-to-folder.wav": lambda path: path.symlink_to("folder"),
}
"""Path -> how something is made there that is no file."""


def refused_files(folder: Path) -> dict[Path, type[AudioError]]:
    """Writes all that is refused into `folder`; returns the error of each path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in REFUSED.items():
        (folder / name).write_bytes(case.make())
    for name, make in PLACES.items():
        make(folder / name)
    errors = {name: case.error for name, case in REFUSED.items()} | dict.fromkeys(PLACES, AudioNotFoundError)
    return {folder / name: error for name, error in errors.items()}
