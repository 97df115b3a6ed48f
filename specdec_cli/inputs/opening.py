"""What a command reads from stdin (`-`), which may be a recording."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import IO, Final, Self

from specdec_cli.audio.paths import opened
from specdec_cli.errors import ConfigError

STDIN: Final = "-"
_NO_TEXT: Final = re.compile(rb"[\x01-\x08\x0e-\x1a]")  # every recording has such bytes, and no list of names


class Stdin:
    """Keeps a recording in a temporary file, because it is read more than once; a context manager, and an `Opener`."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @contextmanager
    def __call__(self, path: str) -> Iterator[FileIO]:
        """Opens `-`, or a file, as `opened` does."""
        kept = self._file if path == STDIN else None
        with opened(path) if kept is None else FileIO(os.dup(kept.fileno()), "rb") as file:
            yield file

    def keep(self, head: bytes, stream: IO[bytes]) -> None:
        """Takes a recording from a stream, of which `head` was read already; raises ConfigError if there is no room."""
        self._file = tempfile.TemporaryFile(prefix="specdec-")  # noqa: SIM115
        try:
            self._file.write(head)
            shutil.copyfileobj(stream, self._file)
            self._file.flush()
        except OSError as error:
            hint = "Save it to a file, and name that file; or set TMPDIR to a folder with more room."
            raise ConfigError(f"The recording on stdin cannot be kept: {error.strerror}.", hint=hint) from error


def is_sound(head: bytes) -> bool:
    """Whether what begins with `head`, some 4 kB, may be a recording, and is no list of paths."""
    return _NO_TEXT.search(head) is not None
