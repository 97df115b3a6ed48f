"""JSONL on disk: whole lines, appended, never half a one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.schema import Transcript


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends one line, whole or not at all; what the file held stays as it was.

    A file that does not end in a newline (an editor's, or a crash's) gets one first, so that its last line is not
    joined to ours.

    Raises:
        TranscriptError: the file cannot be written, or the disk is full.
    """
    line = transcript.to_json().encode("utf-8") + b"\n"
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
        raise TranscriptError(
            f"the transcript {path} cannot be written: {error.strerror or error}",
            hint="Check the folder, its permissions and the free space; the captions above are not lost.",
        ) from error


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The lines of a transcript file, in order; empty lines are skipped.

    Raises:
        TranscriptError: the file cannot be read, or a line is no transcript of schema 1; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TranscriptError(f"the transcript {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Transcript.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise TranscriptError(
                f"{path}:{number} is no transcript of schema 1: {where or 'line'}: {first['msg']}"
            ) from error


def _lock(descriptor: int) -> None:
    """Keeps two processes that append to one file apart, where the system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
