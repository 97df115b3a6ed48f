"""JSONL on disk: whole lines, appended, never half a one."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.schema import Transcript

_LOOKED_AT = 64  # bytes at the start of a file that tell whether it holds JSON
_POLL_S = 0.005
PATIENCE_S = 10.0
"""How long an append waits for its turn, seconds; longer, and a batch has the file for hours."""


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as one line; see `append_line`."""
    append_line(path, transcript.to_json())


def append_line(path: Path, text: str) -> None:
    """Appends one line, whole or not at all; what the file held stays as it was.

    A file that does not end in a newline (an editor's, or a crash's) gets one first, so that its last line is not
    joined to ours.

    Raises:
        TranscriptError: the file cannot be written, or the disk is full.
    """
    line = text.encode("utf-8") + b"\n"
    descriptor = open_locked(path, wait_s=PATIENCE_S)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        write_whole(descriptor, line)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        os.close(descriptor)


def open_locked(path: Path, *, wait_s: float = 0.0) -> int:
    """A descriptor for appending to the file of that name, which nobody else holds; created if there is none.

    Args:
        path: the file.
        wait_s: how long to wait for another that holds it, seconds.

    Raises:
        TranscriptError: another run is writing it, or it cannot be written.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            if not lock(descriptor, wait_s=wait_s):
                raise TranscriptError(
                    f"{path} is being written by another run.", hint="Wait until it has ended, or name another file."
                )
            # While we waited, the other may have put a new file in its place.
            if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            raise unwritable(path, error) from error
        except TranscriptError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def write_whole(descriptor: int, lines: bytes) -> None:
    """Appends `lines`, all of them or nothing, so that a reader never finds half of what belongs together.

    Raises:
        OSError: the disk is full, for example.
    """
    size = os.fstat(descriptor).st_size
    written = os.write(descriptor, lines)
    if written != len(lines):
        os.ftruncate(descriptor, size)
        raise OSError(f"only {written} of {len(lines)} bytes could be written")


def require_appendable(path: Path) -> None:
    """Refuses a file that `append_transcript` would fail on, or that holds something else; writes nothing.

    Raises:
        TranscriptError: it is a folder, it or its folder cannot be written, or its first line is no JSON object.
    """
    folder = path.parent
    try:
        if path.exists():
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
            try:
                start = os.pread(descriptor, _LOOKED_AT, 0) if path.is_file() else b""
            finally:
                os.close(descriptor)
        elif not folder.is_dir():
            raise TranscriptError(f"The folder of {path} does not exist.", hint=f"Create it: mkdir -p {folder}")
        elif not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            return
    except OSError as error:
        raise unwritable(path, error) from error
    if start.strip() and not start.lstrip().startswith(b"{"):
        raise TranscriptError(
            f"{path} holds something else than transcripts; nothing was written to it.",
            hint="Name a new file, or one that specdec wrote.",
        )


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The lines of a transcript file, in order; empty lines are skipped.

    Raises:
        TranscriptError: the file cannot be read, or a line is no transcript of schema 1; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TranscriptError(f"The transcript {path} cannot be read: {reason}.") from error
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield Transcript.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise TranscriptError(
                f"{path}:{number} is no transcript of schema 1: {where or 'line'}: {first['msg']}.",
                hint="Each line is one JSON object as `specdec caption --output` writes it.",
            ) from error


def lock(descriptor: int, *, wait_s: float = 0.0) -> bool:
    """Keeps two processes that write one file apart, where the system can; lasts until the descriptor is closed.

    Args:
        descriptor: of the file.
        wait_s: how long to wait for another that holds it, seconds.

    Returns:
        Whether it was had.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    given_up = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= given_up:
                return False
            time.sleep(_POLL_S)


def unwritable(path: Path, error: OSError) -> TranscriptError:
    """The error of a file that the system does not let us write."""
    return TranscriptError(
        f"The transcript {path} cannot be written: {error.strerror or error}.",
        hint="Check the folder, its permissions and the free space; what the file held is untouched.",
    )
