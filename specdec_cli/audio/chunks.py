"""Is a chunked file cut short? Formats that state the length of each part are held to it.

Each function takes the open file and its size in bytes and returns why the file is incomplete, or None. Only what
costs audio counts: a cut in the tags after the samples is let pass. Lengths that mean "unknown, it was streamed" are
let pass too.
"""

from __future__ import annotations

import struct
from io import FileIO
from typing import Literal

from specdec_cli.audio.files import read_at

NO_AUDIO_YET = "it ends before its audio begins"

_STREAMED_32 = 0x7FFFF000  # writers into a pipe put 0, 0x7fffffff less a header, 0x80000000 or 0xffffffff
_RF64_SIZE = 0xFFFFFFFF


def short_by(count: int) -> str:
    """The reason for `count` bytes that were promised and are not there."""
    return f"its header promises {count:,} more {'byte' if count == 1 else 'bytes'} than the file holds"


def wav(file: FileIO, size: int) -> str | None:
    """RIFF, RIFX, RF64 and BW64 WAVE: walks to the data chunk."""
    order: Literal["<", ">"] = ">" if read_at(file, 0, 4) == b"RIFX" else "<"
    offset, long_length = 12, 0
    while len(header := read_at(file, offset, 8)) == 8:
        name, length = struct.unpack(f"{order}4sI", header)
        if not _printable(name):
            return None  # out of step, for example after a chunk of odd length without its padding byte
        if name == b"ds64" and len(sizes := read_at(file, offset + 8, 16)) == 16:
            long_length = struct.unpack("<QQ", sizes)[1]
        if name == b"data":
            if length == _RF64_SIZE and 0 < long_length < 1 << 63:
                return _overrun(offset + 8 + long_length, size)
            return None if _streamed(length) else _overrun(offset + 8 + length, size)
        offset += 8 + length + (length & 1)
    return NO_AUDIO_YET


def avi(file: FileIO, size: int) -> str | None:
    """AVI: the first RIFF chunk, which holds the first gigabyte or everything."""
    header = read_at(file, 4, 4)
    length = int.from_bytes(header, "little")
    return None if _streamed(length) else _overrun(8 + length, size)


def aiff(file: FileIO, size: int) -> str | None:
    """AIFF and AIFF-C: walks to the SSND chunk."""
    offset = 12
    while len(header := read_at(file, offset, 8)) == 8:
        name, length = struct.unpack(">4sI", header)
        if not _printable(name):
            return None
        if name == b"SSND":
            return None if _streamed(length) else _overrun(offset + 8 + length, size)
        offset += 8 + length + (length & 1)
    return NO_AUDIO_YET


def au(file: FileIO, size: int) -> str | None:
    """Sun/NeXT: offset and length of the samples are in the header."""
    header = read_at(file, 0, 12)
    if len(header) < 12:
        return NO_AUDIO_YET
    start, length = struct.unpack(">II" if header[:4] == b".snd" else "<II", header[4:])
    return None if _streamed(length) else _overrun(start + length, size)


def caf(file: FileIO, size: int) -> str | None:
    """Core Audio: walks to the data chunk, whose length is -1 when it was streamed."""
    offset = 8
    while len(header := read_at(file, offset, 12)) == 12:
        name, length = struct.unpack(">4sq", header)
        if length < 0 or not _printable(name):
            return None
        if name == b"data":
            return _overrun(offset + 12 + length, size)
        offset += 12 + length
    return NO_AUDIO_YET


def w64(file: FileIO, size: int) -> str | None:
    """Sony Wave64: chunks are GUID and a length that counts its own 24 bytes, aligned to 8."""
    offset = 40
    while len(header := read_at(file, offset, 24)) == 24:
        name, length = struct.unpack("<4s12xQ", header)
        if length < 24:
            return None
        if name == b"data":
            return _overrun(offset + length, size) if length < 1 << 62 else None
        offset += (length + 7) & ~7
    return NO_AUDIO_YET


def asf(file: FileIO, size: int) -> str | None:
    """ASF (WMA): top-level objects are GUID and a length that counts its own 24 bytes."""
    offset = 0
    while len(header := read_at(file, offset, 24)) == 24:
        length = int.from_bytes(header[16:24], "little")
        if length < 24:
            return None
        if reason := _overrun(offset + length, size):
            return reason
        offset += length
    return None


def mp4(file: FileIO, size: int) -> str | None:
    """MP4, M4A, MOV: every top-level box must be whole, and the index (moov) must be there."""
    offset, indexed = 0, False
    while len(header := read_at(file, offset, 8)) == 8:
        length, name = struct.unpack(">I4s", header)
        indexed = indexed or name == b"moov"
        if length == 0:  # to the end of the file
            break
        if length == 1:
            length = int.from_bytes(read_at(file, offset + 8, 8), "big")
        if length < 8 or not _printable(name):
            return None
        if reason := _overrun(offset + length, size):
            return reason
        offset += length
    return None if indexed else "it ends before its index (moov), as when a recorder stops without closing its file"


def _overrun(end: int, size: int) -> str | None:
    return short_by(end - size) if end > size else None


def _streamed(length: int) -> bool:
    return length == 0 or length >= _STREAMED_32


def _printable(name: bytes) -> bool:
    return all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in name)
