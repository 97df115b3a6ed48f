"""The mark by which specdec knows a file that it wrote: a digest of all the rest, at the file's end.

The mark is a comment where the format has comments, a text chunk in a PNG, and a field in a JSON object. No file of
another origin has one by chance, and after any edit it no longer fits.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Final

LONGEST: Final = 200
"""Bytes at the end of a file that hold its mark."""

_PNG, _PNG_END = b"\x89PNG", bytes.fromhex("00000000 49454e44 ae426082")  # and its last chunk, IEND
_CHUNK: Final = b"tEXtSource\0"  # a chunk of text with the keyword "Source", see the PNG specification, 11.3.3


def sealed(content: bytes, kind: str) -> bytes:
    """An SVG, HTML, PNG, PDF or JSON file with its mark; `kind` is a word for what it holds."""
    if content.startswith(_PNG):
        return _with_mark(content.removesuffix(_PNG_END), kind)
    if content.startswith(b"{"):
        return _with_mark(content.rstrip().removesuffix(b"}").rstrip(), kind)
    return _with_mark(content, kind)


def fits(content: bytes, kind: str) -> bool:
    """Whether a file is as specdec wrote it as this kind."""
    at = content.rfind(f"specdec:{kind}:".encode(), max(0, len(content) - LONGEST))
    before = _around(content, b"")[0]
    return at >= len(before) and _with_mark(content[: at - len(before)], kind) == content


def _with_mark(body: bytes, kind: str) -> bytes:
    mark = f"specdec:{kind}:{hashlib.sha256(body).hexdigest()}".encode()
    before, after = _around(body, mark)
    return body + before + mark + after


def _around(content: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """What stands before a mark, as long for any mark, and after it."""
    if content.startswith(_PNG):
        chunk = _CHUNK + mark
        return struct.pack(">I", len(chunk) - 4) + _CHUNK, struct.pack(">I", zlib.crc32(chunk)) + _PNG_END
    if content.startswith(b"{"):
        return b',\n "mark": "', b'"\n}\n'
    return (b"\n%", b"\n") if content.startswith(b"%PDF") else (b"<!-- ", b" -->\n")
