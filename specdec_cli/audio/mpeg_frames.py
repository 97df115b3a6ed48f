"""Where the sound of an MP3 begins whose ID3 tag claims more bytes than it has: decoders would pass over sound.

Sources: ISO/IEC 11172-3 section 2.4.2.3 and ISO/IEC 13818-3 (headers of frames), ID3v2.4 section 3.1.
"""

from __future__ import annotations

import os
from io import FileIO
from typing import Final

from specdec_cli.regular_files import read_at

_SEARCHED: Final = 1 << 22  # bytes of a tag
_MOST_FRAMES: Final = 1 << 20  # that may stand within one
_KBIT: Final = {
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Whether the version is MPEG-1 (else MPEG-2 or 2.5) -> kbit/s of layer III."""
# Version, as headers number it -> Hz.
_HZ: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def tag_end(file: FileIO, at: int) -> int | None:
    """Byte behind an ID3 tag at a byte, by its own size; None where there is no tag."""
    head = read_at(file, 10, at)
    if head[:3] != b"ID3" or len(head) < 10:
        return None
    size = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    return at + 10 + size + (10 if head[5] & 0x10 else 0)


def sound_within_tag(file: FileIO) -> int | None:
    """Byte of the first frame of MPEG audio, where frames follow each other out of the tag; None for an honest tag."""
    end = tag_end(file, 0)
    if end is None or end > os.fstat(file.fileno()).st_size:  # the latter is passed over by FFmpeg
        return None
    tag = read_at(file, min(end, _SEARCHED), 0)
    at = tag.find(b"\xff", 10)
    while at >= 0:
        if _run_on(file, at, end):
            return at
        at = tag.find(b"\xff", at + 1)
    return None


def _run_on(file: FileIO, at: int, end: int) -> bool:
    """Whether frames of one kind follow each other from a byte over the end of the tag, and go on behind it."""
    kind, behind = None, 0
    for _ in range(_MOST_FRAMES):
        head = int.from_bytes(read_at(file, 4, at), "big")
        size = _frame_size(head)
        if size is None or kind not in (None, head & 0xFFFE0C00) or at == end:
            return False
        kind, at, behind = head & 0xFFFE0C00, at + size, behind + (at > end)
        if behind > 1:
            return True
    return False


def _frame_size(head: int) -> int | None:
    """Bytes of the frame of an MP3 with a header of 32 bits; None for what is no such header."""
    version, layer, rate, bits = head >> 19 & 3, head >> 17 & 3, head >> 10 & 3, head >> 12 & 15
    if head >> 21 != 0x7FF or version == 1 or layer != 1 or rate == 3 or bits in (0, 15):
        return None
    slots = 144 if version == 3 else 72
    return slots * 1000 * _KBIT[version == 3][bits - 1] // _HZ[version][rate] + (head >> 9 & 1)
