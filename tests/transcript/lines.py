"""Transcripts on disk: one a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specdec_cli.journal import Store, read_lines
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript import Transcript


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as `specdec listen --output` does."""
    with Store(path, TRANSCRIPTS) as store:
        store.append(transcript.to_json())


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts in a file."""
    for line in read_lines(path):
        yield Transcript.from_json(line.raw, f"{path}:{line.number}")
