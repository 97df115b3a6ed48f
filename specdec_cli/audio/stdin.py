"""A recording on standard input, kept in a temporary file without a name, because it is read more than once."""

from __future__ import annotations

import os
import re
import tempfile
from io import FileIO
from typing import IO, Final

from specdec_cli.errors import ConfigError

NAME: Final = "-"
"""What the recording is called."""

MOST_BYTES: Final = 4 << 30
"""Largest recording that is taken."""

_BLOCK: Final = 1 << 20
_NO_TEXT: Final = re.compile(rb"[\x01-\x08\x0e-\x1a]")  # every recording has such bytes, and no list of names
_spooled: list[int] = []  # the descriptor of the temporary file


def is_sound(head: bytes) -> bool:
    """Whether what begins with `head`, some 4 kB, may be a recording, and is no list of paths."""
    return _NO_TEXT.search(head) is not None


def spool(head: bytes, stream: IO[bytes]) -> None:
    """Takes a recording from a stream, of which `head` was read already.

    Raises:
        ConfigError: it is too large, or there is no room for it.
    """
    try:
        with tempfile.TemporaryFile(prefix="specdec-") as file:
            size, block = 0, head
            while block:
                size += len(block)
                if size > MOST_BYTES:
                    hint = "Save it to a file, and name that file."
                    raise ConfigError(f"The recording on stdin is larger than {MOST_BYTES >> 30} GiB.", hint=hint)
                file.write(block)
                block = stream.read(_BLOCK)
            file.flush()
            while _spooled:
                os.close(_spooled.pop())
            _spooled.append(os.dup(file.fileno()))
    except OSError as error:
        hint = "Save it to a file, and name that file; or set TMPDIR to a folder with more room."
        raise ConfigError(f"The recording on stdin cannot be kept: {error.strerror}.", hint=hint) from error


def open_spooled(path: str) -> FileIO | None:
    """The recording, if that is what the path means; None for any other path."""
    return FileIO(os.dup(_spooled[0]), "rb") if path == NAME and _spooled else None
