"""Finds damage of Ogg files that decoders skip: every page has a checksum and a number (RFC 3533, section 6)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import FileIO
from itertools import islice
from typing import Final

_MAGIC: Final = b"OggS"
_HEADER: Final = 27  # bytes, before the table of segments
_LONGEST: Final = _HEADER + 255 + 255 * 255
_WINDOW: Final = 1 << 20
_MOST_MISSING: Final = 1 << 16  # pages; a larger leap is another stream's numbering
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def page_faults(file: FileIO) -> list[str]:
    """The faults of an Ogg's pages, for `Source.faults`; none in other formats. Memory is constant.

    A file that ends exactly between two pages looks like a stopped live stream, which is complete. A leap after the
    pages of headers is no damage: a recording that joins a live stream gets the stream's headers first.
    """
    damaged = missing = lacking = 0
    expected: dict[bytes, int | None] = {}  # serial number -> number of its next page; None: any
    for page, lacking, intact in _pages(file):  # what a page lacks is reported if no page follows
        damaged += not intact and not lacking
        if not intact:
            continue
        serial, number = page[14:18], int.from_bytes(page[18:22], "little")
        begins, granule = page[5] & 2, page[6:14]
        due = number if begins else expected.get(serial)
        if due is not None and due < number < due + _MOST_MISSING:
            missing += number - due
        expected[serial] = number + 1 if granule.strip(b"\0") else None
    faults = []
    if wrong := max(damaged, missing):
        faults.append(f"{wrong} of its pages {'are' if wrong > 1 else 'is'} damaged or missing")
    return faults + [f"its last page lacks {lacking:,} bytes"] * (lacking > 0)


def has_several_streams(file: FileIO) -> bool:
    """Whether an Ogg holds several streams at a time: their first pages come before any other page."""
    begins = [page[5] & 2 for page, _, intact in islice(_pages(file), 2) if intact]
    return len(begins) == 2 and all(begins)


def _pages(file: FileIO) -> Iterator[tuple[bytes, int, bool]]:
    """Yields each page, the bytes that it lacks, and whether it is intact. A damaged page is searched for others."""
    file.seek(0)
    data, at, more = file.read(len(_MAGIC)), 0, True
    if not data.startswith((_MAGIC, b"ID3")):
        return
    while more or data.find(_MAGIC, at) >= 0:
        found = data.find(_MAGIC, at)
        at = found if found >= 0 else max(at, len(data) - len(_MAGIC) + 1)
        if more and len(data) - at < _LONGEST:
            block = file.read(_WINDOW)
            data, at, more = data[at:] + block, 0, bool(block)
            continue
        if found < 0:
            continue
        table_end = at + _HEADER + sum(data[at + _HEADER - 1 : at + _HEADER])
        end = table_end + sum(data[at + _HEADER : table_end])
        page, lacks = data[at:end], max(0, end - len(data))
        intact = not lacks and _checksum(page) == page[22:26]
        yield page, lacks, intact
        at = end if intact else at + len(_MAGIC)


def _checksum(page: bytes) -> bytes:
    """CRC-32 of a page, most significant bit first, from 0: zlib computes the mirror image of it."""
    zeroed = page[:22] + bytes(4) + page[26:]
    mirrored = zlib.crc32(zeroed.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return mirrored.to_bytes(4, "big").translate(_REVERSED)
