"""Opens and reads files that people name. Only regular files are opened, so that nothing waits for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Final, TypeVar

from pydantic import BaseModel, ValidationError

from specdec_cli.errors import ConfigError

Content = TypeVar("Content", bound=BaseModel)

POSIX: Final = hasattr(os, "pread")
"""Whether libraries in C take descriptors of this process, and a file can be read at a place: not on Windows."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | Path) -> BufferedReader[FileIO]:
    """Opens a regular file, or a link to one, for reading.

    Raises OSError if it cannot be opened, or is a pipe, a device or a folder; ValueError if the path holds a NUL.
    """
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return BufferedReader(FileIO(descriptor, "rb"))


def read_at(file: IO[bytes], length: int, at: int) -> bytes:
    """`length` bytes from the place `at` on, fewer at the end of the file. The file's own position stays."""
    if POSIX:
        return os.pread(file.fileno(), length, at)
    place = file.tell()
    file.seek(at)
    found = file.read(length)
    file.seek(place)
    return found


def read_json(path: Path, model: type[Content], what: str, hint: str) -> Content:
    """The content of a JSON file. Raises ConfigError, which calls it a `what`, if it is malformed."""
    try:
        return model.model_validate_json(read_bytes(path, f"The {what} {path}", hint))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, detail["loc"])) or "the whole"
        reason = detail["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{path} is not a {what}: {place}: {reason}.", hint=hint) from error


def read_bytes(path: Path, label: str, hint: str) -> bytes:
    """The bytes of a regular file. Raises ConfigError, which calls it `label`, if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{label} cannot be read: {reason}.", hint=hint) from error
