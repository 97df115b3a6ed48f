"""A recording as a command is given it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from specdec_cli.errors import AudioError, AudioNotFoundError
from specdec_cli.prompts import Language
from specdec_cli.transcript.schema import readable

if TYPE_CHECKING:
    from specdec_cli.config import PromptConfig

_ESCAPED: Final = re.compile(r"\\udc([89a-f][0-9a-f])")


class Key(NamedTuple):
    """What a recording is recognised by in an output, from one run to the next.

    Attributes:
        path: absolute, however it was given; bytes that are no UTF-8 are escaped, as transcripts of 0.1 have them.
        id: of the clip in its manifest.
    """

    path: str
    id: str | None

    @classmethod
    def of(cls, path: str, id_: str | None = None) -> Key:
        """The key of a path as it was given, or as a transcript of any version has it."""
        return cls(readable(os.path.abspath(path)), id_)


def stored_path(text: str) -> str:
    """The path that a transcript names, to be opened: what 0.1 escaped is bytes again, unless there is such a name."""
    if "\\udc" not in text or os.path.lexists(text):
        return text
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A recording to caption.

    Attributes:
        path: as given, or found in a folder that was; to be opened from the working directory.
        sha256: of its bytes, hexadecimal; None where it was not read, or could not be.
        error: why it could not.
        id: of its row in a manifest; None elsewhere.
        language, prompt: of its own; None: those of the run.
        listed_in: the manifest that it is relative to, if it is.
        start_s, end_s: the part of the recording that is meant, seconds; None: all of it, or to its end.
        speaker, text: who speaks and what is said, as its manifest says.
    """

    path: str
    sha256: str | None = None
    error: AudioError | None = None
    id: str | None = None
    language: Language | None = None
    prompt: str | None = None
    listed_in: str | None = field(default=None, compare=False)
    start_s: float | None = None
    end_s: float | None = None
    speaker: str | None = None
    text: str | None = None

    @property
    def key(self) -> Key:
        """What it is recognised by."""
        return Key.of(self.path, self.id)

    def explained(self, error: AudioError) -> AudioError:
        """The error; of one that is not where its manifest says, with what the path is relative to."""
        if self.listed_in is None or not isinstance(error, AudioNotFoundError):
            return error
        where = os.path.dirname(os.path.abspath(self.listed_in))
        message = f"{error.message} Paths in {self.listed_in} are relative to its own folder, {where}."
        return AudioNotFoundError(message, hint=error.hint)

    def asked(self, prompt: PromptConfig) -> tuple[Language, str]:
        """Language and instruction of its caption: its own, or those of the run."""
        language = self.language or prompt.language
        return language, self.prompt or prompt.model_copy(update={"language": language}).instruction
