"""The mark by which specdec knows a file that it wrote: a digest of the rest of the file, at its end.

The mark is a comment if the format has comments, a text chunk in a PNG, and a field in a JSON object. No other file has
one by chance, and after any edit it no longer fits.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import Final

LONGEST: Final = 200
"""Bytes at the end of a file that hold its mark."""

_PNG: Final = b"\x89PNG"
_PNG_END: Final = bytes.fromhex("00000000 49454e44 ae426082")  # its last chunk, IEND
_CHUNK: Final = b"tEXtSource\0"  # a chunk of text with the keyword "Source", see the PNG specification, 11.3.3


def sealed(content: bytes, kind: str) -> bytes:
    """The content of an SVG, HTML, PNG, PDF or JSON file with its mark; `kind` is a word for the kind of file."""
    if content.startswith(_PNG):
        return _with_mark(content.removesuffix(_PNG_END), kind)
    if content.startswith(b"{"):
        return _with_mark(content.rstrip().removesuffix(b"}").rstrip(), kind)
    return _with_mark(content, kind)


def fits(content: bytes, kind: str) -> bool:
    """Whether a file's content is as specdec wrote it, as this kind."""
    at = content.rfind(f"specdec:{kind}:".encode(), max(0, len(content) - LONGEST))
    before = _around(content, b"")[0]
    return at >= len(before) and _with_mark(content[: at - len(before)], kind) == content


def _with_mark(body: bytes, kind: str) -> bytes:
    mark = f"specdec:{kind}:{hashlib.sha256(body).hexdigest()}".encode()
    before, after = _around(body, mark)
    return body + before + mark + after


def _around(content: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """The bytes before a mark, equally many for any mark, and those after it."""
    if content.startswith(_PNG):
        chunk = _CHUNK + mark
        return struct.pack(">I", len(chunk) - 4) + _CHUNK, struct.pack(">I", zlib.crc32(chunk)) + _PNG_END
    if content.startswith(b"{"):
        return b',\n "mark": "', b'"\n}\n'
    return (b"\n%", b"\n") if content.startswith(b"%PDF") else (b"<!-- ", b" -->\n")


EXPORTS: Final = ".specdec-exports"
"""Name of the list in a folder of exports: a digest a line for each file, added before the file is written."""

HEAD_OF_EXPORTS: Final = "specdec exports"
"""First line of the list."""


def listed(folder: Path) -> set[str] | None:
    """The digests of what specdec exported to a folder; None if the list is a file of another origin.

    Raises OSError if it cannot be read.
    """
    index = folder / EXPORTS
    if not os.path.lexists(index):
        return set()
    lines = index.read_bytes().decode("utf-8", "replace").splitlines() if index.is_file() else []
    return None if lines[:1] != [HEAD_OF_EXPORTS] or index.is_symlink() else set(lines)


def is_listed(path: Path) -> bool:
    """Whether specdec exported a file, which was neither edited nor moved since."""
    try:
        folders = (path.parent, *path.absolute().parent.parents[:3])  # names of exports may begin with folders
        content = digest(path.read_bytes())
        return any(content in (listed(folder) or ()) for folder in folders)
    except OSError:
        return False


def digest(content: bytes) -> str:
    """16 hexadecimal digits that identify a content."""
    return hashlib.sha256(content).hexdigest()[:16]
