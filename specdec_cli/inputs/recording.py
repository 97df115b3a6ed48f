"""A recording, as the command line or a manifest names it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from specdec_cli.audio.paths import opened
from specdec_cli.audio.paths import sha256 as digest_of
from specdec_cli.config import Config
from specdec_cli.errors import AudioContentError, AudioError, SpecdecError
from specdec_cli.prompts import Language


class Key(NamedTuple):
    """Identifies a recording in an output, from one run to the next."""

    path: str  # absolute, however it was given
    id: str | None  # of the clip in its manifest

    @classmethod
    def of(cls, path: str, id_: str | None = None) -> Key:
        """The key of a path as it was given, or as a transcript has it."""
        return cls(os.path.abspath(path), id_)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A recording to caption."""

    path: str  # as given, or found in a folder that was; to be opened from the working directory
    sha256: str | None = None  # of its bytes, hexadecimal; None where it was not read, or could not be
    error: AudioError | None = None  # why it could not be read
    id: str | None = None  # of its row in a manifest
    language: Language | None = None  # of its row in a manifest; None: that of the run
    instruction: str | None = None  # the same of its instruction
    start_s: float | None = None  # the part of the recording that is meant, seconds; None: all of it,
    end_s: float | None = None  # or to its end; without `start_s`: most of it that is read
    channel: int | None = None  # of the recording, 0-based; None: as the settings say
    speaker: str | None = None  # who speaks and what is said, of its manifest
    text: str | None = None

    @property
    def key(self) -> Key:
        """What identifies it."""
        return Key.of(self.path, self.id)

    @property
    def place(self) -> dict[str, object]:
        """What a transcript holds of it if it cannot be captioned: id, part, channel from 1, speaker and text."""
        channel = None if self.channel is None else self.channel + 1
        known = {name: getattr(self, name) for name in ("id", "start_s", "end_s", "speaker", "text")}
        return {**known, "channel": channel}

    def content(self) -> str | None:
        """Hex digest of its bytes as they are now; None if they cannot be read."""
        with suppress(AudioError, OSError), opened(self.path) as file:
            return digest_of(file)
        return None

    def content_of(self, error: SpecdecError) -> str | None:
        """Hex digest of its bytes if the error says that they hold nothing to describe; else None."""
        return self.content() if type(error) is AudioContentError else None

    def language_and_instruction(self, config: Config) -> tuple[Language, str]:
        """Language and instruction of its caption: its own, or those of the run."""
        language = self.language or config.prompt.language
        return language, self.instruction or config.instruction(language)
