"""The chunks that WAV, AVI, AIFF and CAF files are made of, and the tags around the sound of any file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO
from typing import Final, NamedTuple

from specdec_cli.audio.samples import STREAMED
from specdec_cli.regular_files import read_at

TAGS: Final = (b"ID3", b"TAG", b"APET", b"LYRI")
"""How tags begin, which may stand behind sound of any format."""
_FIRST: Final = {b"RIFF": 12, b"RF64": 12, b"RIFX": 12, b"FORM": 12, b"caff": 8}  # byte of the first chunk


class Chunk(NamedTuple):
    """A chunk as its own header declares it; chunks of even length follow each other, but for those of a CAF."""

    name: bytes
    at: int  # first byte behind its header
    size: int
    end: int  # where the next one begins


def chunks(file: FileIO, at: int | None = None, most: int = 1000) -> Iterator[Chunk]:
    """The chunks from a byte on, else from the first, but for those behind the end of the file; none of other formats.

    Zeros are chunks without a name; `most`: so many chunks end the search.
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
        if size < 0:  # up to the end
            return


def chunk_named(file: FileIO, name: bytes) -> Chunk | None:
    """The first chunk that is called so."""
    return next((chunk for chunk in chunks(file) if chunk.name == name), None)


def missing_bytes(file: FileIO) -> int:
    """Bytes that the chunks promise and the file lacks; those of recorders and pipes promise none."""
    promised = max((chunk.at + chunk.size for chunk in chunks(file) if 0 < chunk.size < STREAMED), default=0)
    return max(0, promised - os.fstat(file.fileno()).st_size)


def tag_end(file: FileIO, at: int) -> int | None:
    """Byte behind an ID3 tag at a byte, by its own size; None where there is no tag. See ID3v2.4, section 3.1."""
    head = read_at(file, 10, at)
    if head[:3] != b"ID3" or len(head) < 10:
        return None
    size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    return at + 10 + size + (10 if head[5] & 0x10 else 0)
