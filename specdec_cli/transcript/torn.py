"""The end of a file of lines after a crash: half a line, zeros in its place, or a line that only lacks its newline."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.writer import open_locked, unwritable

TRANSCRIPT: Final = b'{"schema":1,"file":"'
"""What every transcript begins with."""

_BLOCK: Final = 1 << 16


def mend(path: Path, whole: Callable[[bytes], bool], beginnings: Sequence[bytes] = (TRANSCRIPT,)) -> None:
    """Mends the end of a file that nobody writes; a file whose lines all end is not opened for writing.

    Raises:
        TranscriptError: it cannot be read or mended, another run is writing it, or it ends in something else.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            intact = not last_line(descriptor)[1]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise TranscriptError(f"The transcript {path} cannot be read: {error.strerror or error}.") from error
    if intact:
        return
    descriptor = open_locked(path)
    try:
        mend_open(descriptor, path, whole, beginnings)
    finally:
        os.close(descriptor)


def mend_open(
    descriptor: int, path: Path, whole: Callable[[bytes], bool], beginnings: Sequence[bytes] = (TRANSCRIPT,)
) -> bool:
    """Ends a last line that only lacks its newline, or cuts it off if it is half a one.

    Args:
        descriptor: of the file, for reading and appending; nobody else writes it.
        path: its name, for messages.
        whole: whether bytes are one whole line.
        beginnings: what every line of this kind of file begins with.

    Returns:
        Whether something was cut off.

    Raises:
        TranscriptError: the file ends in something else, which is left alone; or it cannot be written.
    """
    start, tail = last_line(descriptor)
    if not tail:
        return False
    try:
        if whole(tail):
            os.write(descriptor, b"\n")
            return False
        if not _is_torn(tail, beginnings):
            raise TranscriptError(
                f"{path} ends in something else than a transcript.",
                hint="Name a new file, or one that specdec wrote.",
            )
        os.ftruncate(descriptor, start)
    except OSError as error:
        raise unwritable(path, error) from error
    return True


def last_line(descriptor: int) -> tuple[int, bytes]:
    """Where the last line begins that does not end in a newline, bytes, and what it holds; nothing where all end."""
    at = os.fstat(descriptor).st_size
    tail = b""
    while at > 0:
        length = min(_BLOCK, at)
        at -= length
        block = os.pread(descriptor, length, at)
        end = block.rfind(b"\n") + 1
        tail = block[end:] + tail
        if end:
            return at + end, tail
    return 0, tail


def _is_torn(tail: bytes, beginnings: Sequence[bytes]) -> bool:
    """Whether these are the beginning of a line, or zeros that a crash left in its place."""
    text = tail.strip(b"\0\r\n ")
    return any(text.startswith(beginning) or beginning.startswith(text) for beginning in beginnings)
