"""A path that may be anything: missing, a folder, a pipe, empty, a name that no terminal can print."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from typing import Final, TypeVar

from specdec_cli.errors import AudioDecodeError, AudioError, AudioNotFoundError

Opener = Callable[[str], AbstractContextManager[FileIO]]
"""Opens a recording by its path; raises AudioNotFoundError and AudioDecodeError as `opened` does."""

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LARGE: Final = 1 << 24  # bytes
_digests: dict[tuple[int, ...], str] = {}
_Error = TypeVar("_Error", bound=AudioError)


def shown(path: str) -> str:
    """The path as a message can print it: control characters and undecodable bytes are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def audio_error(error: type[_Error], path: str, says: str, hint: str) -> _Error:
    """An error about the recording at `path`; "{convert}" in a hint is a command that mends what it can of it."""
    stem = os.path.splitext(os.path.basename(path))[0].lstrip("-") or "stdin"  # no option of ffmpeg's
    target = f"{stem}-16k.wav"
    convert = f"ffmpeg -i {shlex.quote(shown(path))} -ac 1 -ar 16000 {shlex.quote(shown(target))}"
    return error(f"{shown(path) or 'An empty path'} {says}.", hint=hint.replace("{convert}", convert))


@contextmanager
def opened(path: str) -> Iterator[FileIO]:
    """Open a regular file; raises AudioNotFoundError where there is none to read, AudioDecodeError if it is empty."""
    if is_url(path):
        hint = "Download it first, with curl -O for example, and name the file."
        raise audio_error(AudioNotFoundError, path, "is an address, not a file", hint)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            hint = "Name a recording, or all those in a folder with a *; save what a pipe delivers to a file first."
            raise audio_error(AudioNotFoundError, path, "is a folder, pipe or device, not a recording", hint)
        file = FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), "rb")  # PyAV cannot encode every name
    except FileNotFoundError as error:
        hint = "Check the spelling, the folder that you are in, and where it leads if it is a link."
        reason = "matches no file" if glob.has_magic(path) else "does not exist"
        raise audio_error(AudioNotFoundError, path, reason, hint) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "it is not a valid path"
        hint = "Check the path, its permissions and the disk it is on."
        raise audio_error(AudioNotFoundError, path, f"cannot be opened: {reason}", hint) from error
    with file:
        if os.fstat(file.fileno()).st_size == 0:
            hint = "Record it again, or copy it again from its source."
            raise audio_error(AudioDecodeError, path, "is empty: it holds 0 bytes", hint)
        yield file


def sha256(file: FileIO) -> str:
    """Hex digest of the file's bytes; that of a large file, of which many parts may be named, is cached."""
    size, *others = found = stamp(file)
    if found in _digests:
        return _digests[found]
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    if size >= _LARGE and others:
        _digests[found] = digest
    return digest


def stamp(file: FileIO) -> tuple[int, ...]:
    """Size, device, inode and time of change, which identify a file's content; of a temporary copy the size alone."""
    status = os.fstat(file.fileno())
    others = (status.st_dev, status.st_ino, status.st_mtime_ns)
    return (status.st_size, *(others if status.st_nlink else ()))


def is_url(path: str) -> bool:
    return _URL.match(path) is not None
