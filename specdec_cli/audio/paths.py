"""Opens the file at a path that may be missing, a folder, a pipe or empty, and identifies its content."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Final, TypeVar

from specdec_cli.errors import AudioDecodeError, AudioError, AudioNotFoundError
from specdec_cli.regular_files import open_regular
from specdec_cli.text import plain

STDIN: Final = "-"
"""The path of a recording on standard input, which must be a regular file; `with_list` makes one of a pipe."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LARGE: Final = 1 << 24  # bytes
_KEPT: Final = 256  # digests
_digests: dict[tuple[int, ...], str] = {}
_Error = TypeVar("_Error", bound=AudioError)


def audio_error(error: type[_Error], path: str, says: str, hint: str) -> _Error:
    """An error about the recording at `path`."""
    return error(f"{plain(path) or 'An empty path'} {says}.", hint=hint)


@contextmanager
def opened(path: str) -> Iterator[FileIO]:
    """Opens a regular file for the block. Raises AudioNotFoundError, or AudioDecodeError if the file is empty."""
    try:
        file = open_regular("/dev/stdin" if path == STDIN else path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = f"cannot be opened: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, FileNotFoundError):
            reason = "matches no file" if glob.has_magic(path) else "does not exist"
        hint = "Check the spelling, permissions and where it leads if it is a link; for an address, download it first."
        raise audio_error(AudioNotFoundError, path, reason, hint) from error
    with file:
        if os.fstat(file.fileno()).st_size == 0:
            raise audio_error(AudioDecodeError, path, "is empty: it holds 0 bytes", "Record or copy it again.")
        yield file.raw


def sha256(file: FileIO) -> str:
    """Hex digest of a file's bytes. Digests of the last large files are kept: tables may name many parts of a file."""
    found = stamp(file)
    digest = _digests.get(found)
    if digest is None:
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if found[0] >= _LARGE:
            _digests[found] = digest
            for oldest in list(_digests)[:-_KEPT]:
                _digests.pop(oldest, None)  # another thread may be doing the same
    return digest


def stamp(file: FileIO) -> tuple[int, ...]:
    """Size, device, inode and time of change (ns), which identify a file's content."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns


def is_url(path: str) -> bool:
    return _URL.match(path) is not None
