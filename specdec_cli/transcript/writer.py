"""JSONL on disk: whole lines, appended, never half a one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.schema import Transcript

_LOOKED_AT = 64  # bytes at the start of a file that tell whether it holds JSON


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
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
            if written != len(line):
                os.ftruncate(descriptor, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unwritable(path, error) from error


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
        raise _unwritable(path, error) from error
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


def _unwritable(path: Path, error: OSError) -> TranscriptError:
    return TranscriptError(
        f"The transcript {path} cannot be written: {error.strerror or error}.",
        hint="Check the folder, its permissions and the free space; what the file held is untouched.",
    )


def _lock(descriptor: int) -> None:
    """Keeps two processes that append to one file apart, where the system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
