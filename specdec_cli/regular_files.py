"""Opening files that people name: regular ones alone, so that no pipe is waited for."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Final

POSIX: Final = hasattr(os, "pread")
"""Whether libraries in C take descriptors of this process, and files are read at a place; not so on Windows."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | Path) -> BufferedReader[FileIO]:
    """Opens a regular file, or a link to one, for reading.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
        ValueError: the path holds a NUL.
    """
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is no regular file", str(path))
    return BufferedReader(FileIO(descriptor, "rb"))


def read_at(file: IO[bytes], length: int, at: int) -> bytes:
    """So many bytes from a place on, fewer at the end of the file; where the file is read otherwise stays."""
    if POSIX:
        return os.pread(file.fileno(), length, at)
    place = file.tell()
    file.seek(at)
    found = file.read(length)
    file.seek(place)
    return found
