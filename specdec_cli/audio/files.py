"""A path that may be anything: missing, a folder, a pipe, empty, a name that no terminal can print."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import TypeVar

from specdec_cli.errors import AudioDecodeError, AudioError, AudioNotFoundError

_Refusal = TypeVar("_Refusal", bound=AudioError)


def shown(path: str) -> str:
    """The path as a message can print it: control characters and undecodable bytes are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def refusal(error: type[_Refusal], path: str, says: str, hint: str) -> _Refusal:
    """An error about the recording at `path`, of which `says` is what is wrong; "{convert}" in a hint is a command.

    The command turns almost any recording into one that loads, and keeps what it can of a broken one.
    """
    target = os.path.splitext(os.path.basename(path))[0] + "-16k.wav"
    convert = f"ffmpeg -i {shlex.quote(shown(path))} -ac 1 -ar 16000 {shlex.quote(shown(target))}"
    return error(f"{shown(path) or 'An empty path'} {says}.", hint=hint.replace("{convert}", convert))


@contextmanager
def opened(path: str) -> Iterator[tuple[FileIO, int]]:
    """Open a regular file that is not empty, and give it with its size in bytes.

    Raises:
        AudioNotFoundError: there is no such file, it is not a regular file, or it may not be read.
        AudioDecodeError: it is empty.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            hint = "Name the recordings inside it, one by one or with a *."
            raise refusal(AudioNotFoundError, path, "is a folder, not a recording", hint)
        if not stat.S_ISREG(mode):
            hint = "Save the sound to a file first, then name that file."
            raise refusal(AudioNotFoundError, path, "is a pipe, socket or device, not a file", hint)
        file = FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), "rb")  # PyAV cannot encode every name
    except FileNotFoundError as error:
        hint = "Check the spelling, the folder that you are in, and where it leads if it is a link."
        raise refusal(AudioNotFoundError, path, "does not exist", hint) from error
    except PermissionError as error:
        hint = f"Look at its permissions with: ls -l {shlex.quote(shown(path))}"
        raise refusal(AudioNotFoundError, path, "may not be read: permission denied", hint) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "it is not a valid path"
        hint = "Check the path and the disk it is on."
        raise refusal(AudioNotFoundError, path, f"cannot be opened: {reason}", hint) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            hint = "Record it again, or copy it again from its source."
            raise refusal(AudioDecodeError, path, "is empty: it holds 0 bytes", hint)
        yield file, size


def sha256(file: FileIO) -> str:
    """Hex digest of the file's bytes."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(path: str) -> str | None:
    """Hex digest of a recording's bytes; None if it cannot be read."""
    with suppress(AudioError, OSError), opened(path) as (file, _):
        return sha256(file)
    return None
