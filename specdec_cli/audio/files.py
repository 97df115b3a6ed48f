"""A path that may be anything: missing, a folder, a pipe, empty, a name that no terminal can print."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from specdec_cli.errors import AudioDecodeError, AudioError, AudioNotFoundError

_HASH_BLOCK = 1 << 20


def shown(path: str) -> str:
    """The path as a message can print it: control characters and undecodable bytes are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def convert_command(path: str) -> str:
    """The command that turns almost any recording into one that loads, and keeps what it can of a broken one."""
    target = os.path.splitext(os.path.basename(path))[0] + "-16k.wav"
    return f"ffmpeg -i {shlex.quote(shown(path))} -ac 1 -ar 16000 {shlex.quote(shown(target))}"


@contextmanager
def opened(path: str) -> Iterator[tuple[FileIO, int]]:
    """Open a regular file that is not empty, and give it with its size in bytes.

    Raises:
        AudioNotFoundError: there is no such file, it is not a regular file, or it may not be read.
        AudioDecodeError: it is empty.
    """
    try:
        status = os.stat(path)
        _require_regular(path, status.st_mode)
        file = FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), "rb")  # PyAV cannot encode every name
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _not_found(path, error) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise AudioDecodeError(
                f"{shown(path)} is empty: it holds 0 bytes.", hint="Record it again, or copy it again from its source."
            )
        yield file, size


def sha256(file: FileIO) -> str:
    """Hex digest of the file's bytes."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(_HASH_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def content_of(path: str) -> str | None:
    """Hex digest of a recording's bytes; None if it cannot be read."""
    try:
        with opened(path) as (file, _):
            return sha256(file)
    except (AudioError, OSError):
        return None


def _require_regular(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise AudioNotFoundError(
            f"{shown(path)} is a folder, not a recording.",
            hint="Name the recordings inside it, one by one or with a *.",
        )
    raise AudioNotFoundError(
        f"{shown(path)} is a pipe, socket or device, not a file.",
        hint="Save the sound to a file first, then name that file.",
    )


def _not_found(path: str, error: OSError | ValueError) -> AudioNotFoundError:
    look = f"ls -l {shlex.quote(shown(path))}"
    if isinstance(error, PermissionError):
        says, hint = "may not be read: permission denied", f"Look at its permissions with: {look}"
    elif "\0" not in path and os.path.islink(path):
        says, hint = "is a link that leads to no file", f"See where it leads with: {look}"
    elif isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = "Check the spelling and the folder that you are in."
        return AudioNotFoundError(f"There is no file {shown(path) or '(an empty path)'}.", hint=hint)
    else:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a valid path"
        says, hint = f"cannot be opened: {reason[:1].lower() + reason[1:]}", "Check the path and the disk it is on."
    return AudioNotFoundError(f"{shown(path)} {says}.", hint=hint)
