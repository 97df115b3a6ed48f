"""Opens what commands take as a recording: a file, a row of a data set (`file.parquet#12`), or stdin (`-`)."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import IO, Final, Self

from specdec_cli.audio.paths import opened
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.embedded import find_embedded, open_embedded

STDIN: Final = "-"
MOST_BYTES: Final = 4 << 30  # of a recording on stdin
_BLOCK: Final = 1 << 20
_NO_TEXT: Final = re.compile(rb"[\x01-\x08\x0e-\x1a]")  # every recording has such bytes, and no list of names


@contextmanager
def open_input(path: str) -> Iterator[FileIO]:
    """Opens a regular file, or a recording inside a Parquet or Arrow file; errors as in `opened`."""
    inside = find_embedded(path)
    with opened(path) if inside is None else open_embedded(*inside) as file:
        yield file


class Stdin:
    """What a command reads from stdin, which may be a recording; a context manager, and an `Opener` that knows it too.

    A temporary file keeps the recording, because it is read more than once.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @contextmanager
    def __call__(self, path: str) -> Iterator[FileIO]:
        """Opens `-`, or what `open_input` opens."""
        kept = path == STDIN and self._file is not None
        with FileIO(os.dup(self._file.fileno()), "rb") if kept and self._file else open_input(path) as file:
            yield file

    def keep(self, head: bytes, stream: IO[bytes]) -> None:
        """Takes a recording from a stream, of which `head` was read already.

        Raises:
            ConfigError: it is too large, or there is no room.
        """
        self._file = tempfile.TemporaryFile(prefix="specdec-")  # noqa: SIM115
        size, block = 0, head
        try:
            while block:
                size += len(block)
                if size > MOST_BYTES:
                    hint = "Save it to a file, and name that file."
                    raise ConfigError(f"The recording on stdin is larger than {MOST_BYTES >> 30} GiB.", hint=hint)
                self._file.write(block)
                block = stream.read(_BLOCK)
            self._file.flush()
        except OSError as error:
            hint = "Save it to a file, and name that file; or set TMPDIR to a folder with more room."
            raise ConfigError(f"The recording on stdin cannot be kept: {error.strerror}.", hint=hint) from error


def is_sound(head: bytes) -> bool:
    """Whether what begins with `head`, some 4 kB, may be a recording, and is no list of paths."""
    return _NO_TEXT.search(head) is not None
