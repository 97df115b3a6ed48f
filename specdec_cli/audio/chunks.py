"""The chunks of WAV, AVI, AIFF and CAF files, and the tags before and after the sound of any file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO
from typing import Final, NamedTuple

from specdec_cli.audio.samples import STREAMED
from specdec_cli.regular_files import read_at

TAGS: Final = (b"ID3", b"TAG", b"APET", b"LYRI")
"""Beginnings of tags, which may follow the sound in any format."""
_FIRST: Final = {b"RIFF": 12, b"RF64": 12, b"RIFX": 12, b"FORM": 12, b"caff": 8}  # byte of the first chunk


class Chunk(NamedTuple):
    """A chunk as its own header declares it. Chunks are padded to an even length, except in a CAF."""

    name: bytes
    at: int  # first byte after its header
    size: int  # bytes from there
    end: int  # first byte of the next chunk


def chunks(file: FileIO, at: int | None = None, most: int = 1000) -> Iterator[Chunk]:
    """The chunks from the byte `at` on, or from the first (None), up to the end of the file; none in other formats.

    Zeros are chunks without a name. The search ends after `most` chunks.
    """
    kind = read_at(file, 4, 0)
    is_caf, is_little = kind == b"caff", kind in (b"RIFF", b"RF64")
    width = 12 if is_caf else 8  # of a header
    first = _FIRST.get(kind, 0)
    at = first if at is None else at + at % 2
    for _ in range(most * (first > 0)):
        head = read_at(file, width, at)
        size = int.from_bytes(head[4:], "little" if is_little else "big", signed=is_caf)
        if len(head) < width:
            return
        begin, at = at + width, at + width + size + (0 if is_caf else size % 2)
        yield Chunk(head[:4], begin, size, at)
        if size < 0:  # the chunk goes up to the end of the file
            return


def chunk_named(file: FileIO, name: bytes) -> Chunk | None:
    """The first chunk with this name, if there is one."""
    return next((chunk for chunk in chunks(file) if chunk.name == name), None)


def missing_bytes(file: FileIO) -> int:
    """Bytes that the chunks declare and the file lacks; the sizes that recorders and pipes write do not count."""
    promised = max((chunk.at + chunk.size for chunk in chunks(file) if 0 < chunk.size < STREAMED), default=0)
    return max(0, promised - os.fstat(file.fileno()).st_size)


def tag_end(file: FileIO, at: int) -> int | None:
    """The byte after the ID3 tag at the byte `at`; None if there is no tag. See ID3v2.4, section 3.1."""
    head = read_at(file, 10, at)
    if head[:3] != b"ID3" or len(head) < 10:
        return None
    size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    return at + 10 + size + (10 if head[5] & 0x10 else 0)
