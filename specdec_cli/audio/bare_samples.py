"""WAV and AU files whose header lacks or contradicts what libraries need: those would read noise, or nothing.

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

from specdec_cli.audio.chunks import chunk_named
from specdec_cli.audio.samples import BLOCK_SAMPLES, STREAMED, Floats, Source
from specdec_cli.regular_files import read_at

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # tags
_KINDS: Final = {_PCM: {1: "u1", 2: "<i2", 3: "<i3", 4: "<i4"}, _FLOAT: {4: "<f4", 8: "<f8"}}
"""Tag -> bytes of a sample -> NumPy's name of its type ("<i3": three bytes)."""
_OF_AU: Final = {2: "i1", 3: ">i2", 5: ">i4", 6: ">f4", 7: ">f8"}
"""Encoding -> NumPy's name of the type of a sample."""
_LACKING: Final = "lacks the bits per sample, or contradicts them: blocks of {} bytes are taken apart"
_UNCOUNTED: Final = "counts no sound: all of it is read"
_FLOATS: Final = "says that its samples are integers, but they look like floats and are read as such"
_PLACES, _SAMPLED = 16, 4096  # places of the sound that are examined, and samples at each
_LEAST: Final = 100  # different samples, without 0, that decide anything
_SMALLEST, _LARGEST = 1e-9, 8.0  # magnitudes of floats; most integers, read as floats, are far smaller


class _Layout(NamedTuple):
    at: int  # first byte of the samples
    size: int  # bytes of them
    rate: int  # Hz
    channels: int
    kind: str  # of a sample
    says: str  # what is wrong with the header


def from_bare_samples(_path: str, file: FileIO, _stack: ExitStack, from_s: float, _track: int | None) -> Source | None:
    """A `Source` for WAV and AU with such a header; None for all other files."""
    if (found := _of_au(file) or _of_wav(file)) is None or found.channels < 1 or found.rate < 1:
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
    source.notes.append(f"has a header that {found.says}")
    return source


def _of_au(file: FileIO) -> _Layout | None:
    """The layout of an AU that counts 0 bytes of sound, as a recorder leaves it that was killed; else None."""
    head = read_at(file, 24, 0)
    if len(head) < 24 or not head.startswith(b".snd"):
        return None
    at, size, encoding, rate, channels = struct.unpack_from(">5I", head, 4)
    kind = _OF_AU.get(encoding)
    if size or kind is None:
        return None
    return _Layout(at, os.fstat(file.fileno()).st_size - at, rate, channels, kind, _UNCOUNTED)


def _of_wav(file: FileIO) -> _Layout | None:
    """The layout of a WAV with a wrong header; None for others.

    Such a header lacks the bits per sample, the extension of its tag or, in an RF64, the size of the sound; or its
    samples are 24 bits in 4 bytes, or floats that it calls integers.
    """
    header, data, large = (chunk_named(file, name) for name in (b"fmt ", b"data", b"ds64"))
    if header is None or data is None or header.size < 14 or read_at(file, 4, 0) not in (b"RIFF", b"RF64"):
        return None
    (_, at, length, _), (_, data_at, size, _) = header, data
    fields = read_at(file, min(length, 26), at).ljust(26, b"\0")
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", fields)
    bits = bits if length >= 16 else 0
    bare = tag == _EXTENSIBLE and length < 40
    width, uneven = divmod(block, max(1, channels))
    rest = os.fstat(file.fileno()).st_size - data_at
    size = size if 0 < size < min(rest, STREAMED) else rest
    stored = int.from_bytes(fields[24:26], "little") if tag == _EXTENSIBLE else tag
    if (stored, bits, width) == (_PCM, 32, 4) and not bare and _look_like_floats(file, data_at, size):
        return _Layout(data_at, size, rate, channels, "<f4", _FLOATS)
    kind = _KINDS.get(_PCM if bare else stored, {}).get(width)
    if kind is None or uneven:
        return None
    if large is not None and not any(read_at(file, 8, large.at + 8)):
        return _Layout(data_at, size, rate, channels, kind, _UNCOUNTED)
    if not (bare or bits == 0 or (tag, bits, width) == (_PCM, 24, 4)):
        return None
    return _Layout(data_at, size, rate, channels, kind, _LACKING.format(block))


def _look_like_floats(file: FileIO, at: int, size: int) -> bool:
    starts = (at + size // 4 * place // _PLACES * 4 for place in range(_PLACES))
    data = b"".join(read_at(file, 4 * min(_SAMPLED, size // 4 // _PLACES), start) for start in starts)
    with np.errstate(invalid="ignore"):  # small negative integers are NaN as floats
        samples = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float64)
    magnitudes = np.abs(samples[samples != 0])
    if len(np.unique(magnitudes)) < _LEAST:
        return False
    return bool(np.quantile(magnitudes, 0.05) > _SMALLEST and magnitudes.max() < _LARGEST)


def _floats(data: bytes, kind: str) -> Floats:
    """Samples of a type, by NumPy's name, as float32 [n] of full scale 1.0."""
    if kind == "<i3":
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, kind = wide.tobytes(), "<i4"
    array = np.frombuffer(data, kind).astype(np.float64)
    if "f" not in kind:
        array = array / 2.0 ** (8 * int(kind[-1]) - 1) - ("u" in kind)
    return array.astype(np.float32)
