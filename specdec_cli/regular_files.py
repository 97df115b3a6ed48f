"""Opening files that people name: regular ones alone, so that no pipe is waited for."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path


def open_regular(path: str | Path) -> BufferedReader[FileIO]:
    """Opens a regular file, or a link to one, for reading.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
        ValueError: the path holds a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is no regular file", str(path))
    return BufferedReader(FileIO(descriptor, "rb"))
