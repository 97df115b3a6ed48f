"""What a batch is made of: recordings to caption, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_cli.inputs.recording import InputFile

if TYPE_CHECKING:
    from specdec_cli.transcript.schema import Transcript


@dataclass(frozen=True, slots=True)
class Task:
    """A recording that may be done already.

    Attributes:
        item: the recording.
        known: SHA-256 of the content for which the output has a good line; None where it has none.
        done: whether it is known to be done without a look at the file.
    """

    item: InputFile
    known: str | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording.

    Attributes:
        item: the recording.
        lines: its transcripts, one per segment; empty if it was done before.
    """

    item: InputFile
    lines: tuple[Transcript, ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the output had it already."""
        return not self.lines

    @property
    def failed(self) -> bool:
        """Whether it, or a segment of it, has no caption."""
        return any(line.error is not None for line in self.lines)
