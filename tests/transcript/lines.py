"""Transcripts on disk: one a line."""

from collections.abc import Iterator
from pathlib import Path

from specdec_cli.journal import Journal, StoredLine, read_lines
from specdec_cli.targets import TRANSCRIPTS, FileKind
from specdec_cli.transcript import Transcript


class Raw(Journal[StoredLine]):
    """Lines of which nothing is asked."""

    def __init__(self, path: Path, kind: FileKind = TRANSCRIPTS, *, overwrite: bool = False) -> None:
        super().__init__(path, kind, lambda _: (), overwrite=overwrite)

    def parsed(self, line: StoredLine) -> StoredLine:
        return line

    def take(self, entry: StoredLine) -> None:
        pass


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as it is."""
    with Raw(path) as journal:
        journal.append(transcript.to_json())


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts in a file."""
    for line in read_lines(path):
        yield Transcript.from_json(line.raw, f"{path}:{line.number}")
