"""Transcripts on disk: one a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specdec_cli.errors import TranscriptError
from specdec_cli.store import append_line
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript.schema import Transcript


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as one line, whole or not at all; what the file held stays as it was.

    A file that does not end in a newline (an editor's, or a crash's) gets one first, so that its last line is not
    joined to ours.

    Raises:
        TranscriptError: another run holds the file, it cannot be written, or the disk is full.
    """
    append_line(path, TRANSCRIPTS, transcript.to_json())


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
        if line.strip():
            yield Transcript.from_json(line, f"{path}:{number}")
