"""Tells file formats apart by their first bytes; the name of the file is never trusted."""

from __future__ import annotations

import re
from io import FileIO
from typing import Literal

from specdec_cli.audio.files import read_at, shown
from specdec_cli.errors import AudioDecodeError

Container = Literal[
    "wav", "w64", "aiff", "au", "caf", "flac", "ogg", "mp3", "mp4", "matroska", "asf", "avi", "stream", "unknown"
]
"""stream: frames without a header for the whole (ADTS, AC-3, AMR); unknown: the decoders are left to find out."""

_SNIFF_BYTES = 4096
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_W64_RIFF = b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000")
_MP4_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"pnot"})
_MAGIC: tuple[tuple[bytes, Container], ...] = (
    (_W64_RIFF, "w64"),
    (b".snd", "au"),
    (b"dns.", "au"),
    (b"caff", "caf"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"\x1a\x45\xdf\xa3", "matroska"),
    (_ASF_HEADER, "asf"),
    (b"#!AMR", "stream"),
    (b"\x0b\x77", "stream"),
    (b"NIST_1A", "unknown"),  # a text header before binary samples
    (b"PVF1", "unknown"),
)
_NOT_AUDIO: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "a database"),
    (b"MThd", "a MIDI file, which holds notes and no sound"),
)
_LFS_POINTER = b"version https://git-lfs.github.com"
_TEXT_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def recognise(path: str, file: FileIO) -> Container:
    """The container of an open file.

    Raises:
        AudioDecodeError: it is plainly something else (an image, a document, text, a Git LFS pointer).
    """
    head = read_at(file, 0, _SNIFF_BYTES)
    container = _audio_container(head, file)
    if container != "unknown" or head.startswith((b"NIST_1A", b"PVF1")):
        return container
    if head.startswith(_LFS_POINTER):
        raise AudioDecodeError(
            f"{shown(path)} is a Git LFS pointer: the recording itself was not downloaded.",
            hint="Fetch it with: git lfs pull",
        )
    if kind := _other_kind(head):
        raise AudioDecodeError(
            f"{shown(path)} is not audio: it looks like {kind}.",
            hint="Name a recording such as .wav, .flac, .mp3 or .m4a.",
        )
    return "unknown"


def id3_end(file: FileIO) -> int:
    """Offset of the first byte after any ID3v2 tags at the start of the file."""
    offset = 0
    while (header := read_at(file, offset, 10))[:3] == b"ID3" and len(header) == 10:
        size = 0
        for byte in header[6:10]:
            size = size << 7 | (byte & 0x7F)
        offset += 10 + size
    return offset


def _audio_container(head: bytes, file: FileIO) -> Container:
    if head[:3] == b"ID3":
        offset = id3_end(file)
        head = read_at(file, offset, _SNIFF_BYTES)
        if head[:4] == b"fLaC":
            return "flac"
        return _mpeg_audio(head) or "mp3"
    if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64"):
        forms: dict[bytes, Container] = {b"WAVE": "wav", b"AVI ": "avi"}
        return forms.get(head[8:12], "unknown")
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "aiff"
    if head[4:8] in _MP4_BOXES:
        return "mp4"
    for magic, container in _MAGIC:
        if head.startswith(magic):
            return container
    return _mpeg_audio(head) or "unknown"


def _mpeg_audio(head: bytes) -> Container | None:
    """MPEG audio and ADTS frames begin with the same 11 bits; ADTS has the reserved layer 0."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    if head[1] & 0xF6 == 0xF0:
        return "stream"
    version, layer, bitrate, rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return "mp3" if version != 1 and layer != 0 and bitrate != 15 and rate != 3 else None


def _other_kind(head: bytes) -> str | None:
    for magic, kind in _NOT_AUDIO:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _text(head, "utf-16")
    return _text(head, "utf-8")


def _text(head: bytes, encoding: str) -> str | None:
    for end in range(len(head), max(len(head) - 4, 0), -1):  # the sniffed part may end inside a character
        try:
            text = head[:end].decode(encoding)
        except UnicodeDecodeError:
            continue
        return None if _TEXT_CONTROLS.search(text) else "text"
    return None
