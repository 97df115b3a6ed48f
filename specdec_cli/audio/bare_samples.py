"""Uncompressed sound behind a header that lacks what both libraries need: they would refuse it, or read noise.

Sources: "Multimedia Programming Interface and Data Specifications 1.0" and WAVEFORMATEXTENSIBLE (Microsoft); au(5).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from io import FileIO
from typing import Final, NamedTuple

import numpy as np

from specdec_cli.audio.samples import BLOCK_SAMPLES, STREAMED, Floats, Source
from specdec_cli.regular_files import read_at

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # tags of a WAV
_OF_WAV: Final = {_PCM: {1: "u1", 2: "<i2", 3: "<i3", 4: "<i4"}, _FLOAT: {4: "<f4", 8: "<f8"}}
"""Tag -> bytes of a sample -> its type, as NumPy would name it."""
_OF_AU: Final = {2: "i1", 3: ">i2", 5: ">i4", 6: ">f4", 7: ">f8"}
_MOST_CHUNKS: Final = 1000  # before the sound


class _Layout(NamedTuple):
    at: int  # first byte of the samples
    size: int  # bytes of them
    rate: int  # Hz
    channels: int
    kind: str  # of a sample
    why: str  # what the header lacks


def from_bare_samples(_path: str, file: FileIO, _stack: ExitStack, from_s: float, _track: int | None) -> Source | None:
    """WAV and AU with such a header; None for all other files."""
    found = _of_au(file) or _of_wav(file)
    if found is None or found.channels < 1 or found.rate < 1:
        return None
    width = int(found.kind[-1]) * found.channels  # of a frame, bytes
    frames = found.size // width
    at = min(round(from_s * found.rate), frames)

    def blocks() -> Iterator[Floats]:
        length = max(1, BLOCK_SAMPLES // found.channels)
        for begin in range(at, frames, length):
            data = read_at(file, width * min(length, frames - begin), found.at + width * begin)
            yield _floats(data[: len(data) // width * width], found.kind).reshape(-1, found.channels)

    source = Source(found.rate, found.channels, blocks(), at=at, longest_s=frames / found.rate)
    source.notes.append(f"has a header {found.why}")
    return source


def _of_au(file: FileIO) -> _Layout | None:
    """An AU that counts 0 bytes of sound, as of a recorder that died."""
    head = read_at(file, 24, 0)
    if len(head) < 24 or not head.startswith(b".snd"):
        return None
    at, size, encoding, rate, channels = struct.unpack_from(">5I", head, 4)
    kind = _OF_AU.get(encoding)
    if size or kind is None:
        return None
    return _Layout(at, os.fstat(file.fileno()).st_size - at, rate, channels, kind, "that counts no sound: all is read")


def _of_wav(file: FileIO) -> _Layout | None:
    """A WAV without the bits per sample, without the extension that its tag calls for, or with 24 bits in 4 bytes."""
    chunks = chunks_of_wav(file)
    if not {b"fmt ", b"data"} <= chunks.keys() or chunks[b"fmt "][1] < 14:
        return None
    (at, length), (data_at, size) = chunks[b"fmt "], chunks[b"data"]
    fields = read_at(file, min(length, 26), at).ljust(26, b"\0")
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", fields)
    bits = bits if length >= 16 else 0
    bare = tag == _EXTENSIBLE and length < 40
    width, uneven = divmod(block, max(1, channels))
    kind = _OF_WAV.get(_PCM if bare else tag, {}).get(width)
    if kind is None or uneven or not (bare or bits == 0 or (tag, bits, width) == (_PCM, 24, 4)):
        return None
    why = f"that lacks the bits per sample, or contradicts them: blocks of {block} bytes are taken apart"
    rest = os.fstat(file.fileno()).st_size - data_at
    return _Layout(data_at, size if 0 < size < min(rest, STREAMED) else rest, rate, channels, kind, why)


def chunks_of_wav(file: FileIO) -> dict[bytes, tuple[int, int]]:
    """Name -> first byte and size, of the chunks up to the sound; nothing for other formats."""
    found: dict[bytes, tuple[int, int]] = {}
    head = read_at(file, 12, 0)
    at, is_wav = 12, head[:4] == b"RIFF" and head[8:] == b"WAVE"
    for _ in range(_MOST_CHUNKS * is_wav):
        name, size = read_at(file, 4, at), int.from_bytes(read_at(file, 4, at + 4), "little")
        if len(name) < 4:
            break
        found.setdefault(name, (at + 8, size))
        if name == b"data":
            break
        at += 8 + size + size % 2
    return found


def _floats(data: bytes, kind: str) -> Floats:
    """Samples of full scale 1.0, float32 [n]."""
    if kind == "<i3":
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, kind = wide.tobytes(), "<i4"
    array = np.frombuffer(data, kind).astype(np.float64)
    if "f" not in kind:
        array = array / 2.0 ** (8 * int(kind[-1]) - 1) - ("u" in kind)
    return array.astype(np.float32)
