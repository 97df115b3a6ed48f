"""Which files specdec wrote: a digest of each, in the user's state folder. Files that it wrote may be replaced."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from contextlib import suppress
from io import BufferedReader, BytesIO, FileIO
from typing import Final

from specdec_cli.cache import user_folder
from specdec_cli.regular_files import read_at

HEAD: Final = b"SHA-256 digests of files that specdec wrote, so that it may replace them\n"
"""First line of the list."""
_ENTRY: Final = re.compile(rb"^[0-9a-f]{64}$", re.MULTILINE)
_FLAGS: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def digest_of(content: bytes | BufferedReader[FileIO], about: str = "") -> str:
    """The digest of a content that is `about` something, such as a recording; of another one it would be another."""
    file = BytesIO(content) if isinstance(content, bytes) else content
    begins = hashlib.sha256(os.fsencode(f"{about}\0") if about else b"")
    return hashlib.file_digest(file, begins.copy).hexdigest()


def digest(content: bytes) -> str:
    """16 hexadecimal digits that identify a content."""
    return hashlib.sha256(content).hexdigest()[:16]


class Digests:
    """The list, a digest a line. Several processes may read it and add to it at once; links are not followed."""

    def __init__(self) -> None:
        self._known = self._read()

    def holds(self, digest: str) -> bool:
        """Whether specdec wrote a content; False if the list cannot be read."""
        if digest.encode() not in self._known:
            self._known |= self._read()  # another run may have added it
        return digest.encode() in self._known

    def add(self, digest: str) -> None:
        """Adds a digest; without a usable list, the file is not known later on."""
        if digest.encode() in self._known:
            return
        self._known.add(digest.encode())
        with suppress(OSError), _opened(os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            size = os.fstat(file.fileno()).st_size
            torn = size and read_at(file, 1, size - 1) != b"\n"  # by a disk that was full
            file.write((b"\n" if torn else b"" if size else HEAD) + digest.encode() + b"\n")

    def _read(self) -> set[bytes]:
        with suppress(OSError), _opened(os.O_RDONLY) as file:
            return set(_ENTRY.findall(file.read()))
        return set()


def problem() -> str | None:
    """Why the list cannot be used, for a hint; None if it can."""
    try:
        with _opened(os.O_RDWR | os.O_APPEND):
            return None
    except OSError as error:
        return f"specdec knows no file that it wrote: {error.filename}: {error.strerror}."


def _opened(how: int) -> FileIO:
    """The list, unbuffered. Raises OSError if it cannot be opened, or is a link or a file of another origin."""
    folder = user_folder("XDG_STATE_HOME", ".local/state")
    if folder is None:
        raise OSError(errno.ENOENT, "There is no home folder", "XDG_STATE_HOME")
    if how & os.O_CREAT:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder / "written"
    file = FileIO(place, "rb+" if how & os.O_RDWR else "rb", opener=lambda *_: os.open(place, how | _FLAGS, 0o600))
    if os.fstat(file.fileno()).st_size and read_at(file, len(HEAD), 0) != HEAD:
        file.close()
        raise OSError(errno.EINVAL, "It holds something other than specdec's list", str(place))
    return file
