"""Is a paged file cut short? Ogg pages, Matroska elements and the frame count that MP3 encoders leave.

The functions look like those in `chunks`: they return why the file is incomplete, or None.
"""

from __future__ import annotations

from io import FileIO

from specdec_cli.audio.chunks import short_by
from specdec_cli.audio.containers import id3_end
from specdec_cli.audio.files import read_at

_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675
_OGG_HEADER = 27
_MP3_SCAN = 1 << 16


def ogg(file: FileIO, size: int) -> str | None:
    """Every Ogg page must be whole. A cut exactly between two pages looks like a stopped live stream and passes."""
    offset = 0
    while offset < size:
        header = read_at(file, offset, _OGG_HEADER + 255)
        if header[:4] != b"OggS":
            tail = size - offset
            return short_by(_OGG_HEADER - tail) if tail < 4 and b"OggS".startswith(header) else None
        if len(header) < _OGG_HEADER:
            return short_by(_OGG_HEADER - len(header))
        count = header[26]
        table = header[_OGG_HEADER : _OGG_HEADER + count]
        offset += _OGG_HEADER + count + sum(table)
        if offset > size or len(table) < count:
            return short_by(max(offset - size, count - len(table)))
    return None


def matroska(file: FileIO, size: int) -> str | None:
    """Matroska and WebM: elements must be whole; segments and clusters of unknown length are entered."""
    offset = 0
    while offset < size:
        header = read_at(file, offset, 12)
        name, name_bytes = _vint(header, keep_marker=True)
        length, length_bytes = _vint(header[name_bytes:], keep_marker=False)
        if not name_bytes or not length_bytes:
            return short_by(1) if size - offset < 12 and header[:1] != b"\0" else None
        offset += name_bytes + length_bytes
        if length == (1 << 7 * length_bytes) - 1:  # unknown: a live stream
            if name not in (_SEGMENT, _CLUSTER):
                return None
            continue
        offset += length
        if offset > size:
            return short_by(offset - size)
    return None


def mp3(file: FileIO, size: int) -> str | None:
    """The first frame's Xing or Info tag states the bytes of the stream; without one an MP3 has no known length.

    Less than one frame may be missing: writers disagree on whether the tag's own frame and the trailing tags count.
    """
    start = id3_end(file)
    if start >= size:
        return short_by(start - size + 1)
    head = read_at(file, start, _MP3_SCAN)
    skipped = next((i for i in range(len(head) - 4) if _is_frame(head[i : i + 4])), None)
    if skipped is None:
        return None
    head = head[skipped : skipped + 256]
    low_rate, mono = not head[1] & 0x08, head[3] >> 6 == 3
    side_info = (9 if mono else 17) if low_rate else (17 if mono else 32)
    tag = head[4 + side_info :]
    if tag[:4] not in (b"Xing", b"Info") or len(tag) < 16:
        return None
    flags = int.from_bytes(tag[4:8], "big")
    if flags & 2 == 0:
        return None
    position = 12 if flags & 1 else 8
    stated = int.from_bytes(tag[position : position + 4], "big")
    frames = int.from_bytes(tag[8:12], "big") if flags & 1 else 0
    missing = start + skipped + stated - size
    return short_by(missing) if missing > (stated // (frames + 1) if frames else 0) else None


def _is_frame(header: bytes) -> bool:
    return (
        header[0] == 0xFF
        and header[1] & 0xE0 == 0xE0
        and header[1] & 0x18 != 0x08
        and header[1] & 0x06 == 0x02  # layer III
        and header[2] & 0xF0 not in (0, 0xF0)
        and header[2] & 0x0C != 0x0C
    )


def _vint(data: bytes, *, keep_marker: bool) -> tuple[int, int]:
    """An EBML number and the bytes that it takes; (0, 0) when it is cut or not one."""
    if not data or data[0] == 0:
        return 0, 0
    width = 9 - data[0].bit_length()
    if len(data) < width:
        return 0, 0
    value = int.from_bytes(data[:width], "big")
    return (value if keep_marker else value & ((1 << 7 * width) - 1)), width
