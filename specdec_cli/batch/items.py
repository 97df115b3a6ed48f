"""What a batch is made of: recordings to caption, and what became of each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from specdec_cli.prompts import Language, prompt_for

if TYPE_CHECKING:
    from specdec_cli.config import PromptConfig
    from specdec_cli.transcript.schema import Transcript


class Key(NamedTuple):
    """What a clip is recognised by in the output, from one run to the next.

    Attributes:
        path: absolute, however it was given; bytes that are no text are escaped, as in a transcript.
        id: of the clip in its manifest.
    """

    path: str
    id: str | None

    @classmethod
    def of(cls, file: str, id_: str | None = None) -> Key:
        """The key of a file as it was given, or as a transcript names it."""
        return cls(os.path.abspath(file.encode("utf-8", "backslashreplace").decode("utf-8")), id_)


@dataclass(frozen=True, slots=True)
class Item:
    """A recording to caption.

    Attributes:
        file: its path, to be opened from the working directory.
        id: of its row in a manifest; None elsewhere.
        language, prompt: of its own; None: those of the run.
    """

    file: str
    id: str | None = None
    language: Language | None = None
    prompt: str | None = None

    @property
    def key(self) -> Key:
        """What it is recognised by."""
        return Key.of(self.file, self.id)

    def asked(self, prompt: PromptConfig) -> tuple[Language, str]:
        """Language and instruction of its caption: its own, or those of the run."""
        language = self.language or prompt.language
        if self.prompt is not None:
            return language, self.prompt
        return language, prompt.text if prompt.text is not None else prompt_for(language, prompt.style)


@dataclass(frozen=True, slots=True)
class Task:
    """An item of which nobody knows yet whether it is done.

    Attributes:
        item: the recording.
        known: SHA-256 of the content for which the output has a good line; None where it has none.
        done: whether it is known to be done without a look at the file.
    """

    item: Item
    known: str | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording.

    Attributes:
        item: the recording.
        lines: its transcripts, one per segment; empty if it was done before.
    """

    item: Item
    lines: tuple[Transcript, ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the output had it already."""
        return not self.lines

    @property
    def failed(self) -> bool:
        """Whether it, or a segment of it, has no caption."""
        return any(line.error is not None for line in self.lines)
