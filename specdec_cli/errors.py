"""Every error that specdec raises on purpose.

The command line renders them once, as a sentence and a hint; a traceback appears only with `--debug`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import ClassVar, Final

_LISTED: Final = 8  # problems beside the first
BROKEN_PIPE_STATUS: Final = 141
"""The status that a shell reports for a program whose output is no longer read (128 + SIGPIPE)."""
DEGRADED_STATUS: Final = 4
"""The status of a run in which the edge wrote captions on without the cloud, which had failed."""


class SpecdecError(Exception):
    """Base of all errors that specdec raises on purpose: a sentence that names the values, and a hint what to do."""

    status: ClassVar[int] = 3  # of a command that the error ends; see `EXIT_CODES`

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(SpecdecError):
    """A setting that is unknown, malformed or contradicts another."""

    status = 2


class LexiconError(ConfigError):
    """A lexicon file that cannot be read or that contradicts itself."""


class ReferencesError(ConfigError):
    """A table of references, a manifest or a file of cuts that cannot be read or that contradicts itself."""


class CheckpointError(SpecdecError):
    """A model that cannot be loaded as asked."""


class TokenizerMismatchError(CheckpointError):
    """Edge and cloud do not share one tokenizer, so their token ids mean different things."""


class AudioError(SpecdecError):
    """A recording that cannot be captioned."""

    status = 1


class AudioNotFoundError(AudioError):
    """No such file, not a regular file, or it may not be read."""

    status = 2


class AudioDecodeError(AudioError):
    """Not audio, empty, truncated or of an unknown format."""


class AudioContentError(AudioError):
    """A recording with nothing to describe: too short, too long, silent, or not finite."""


class TooLongError(AudioContentError):
    """A recording, or a part of one, beyond the longest that is read, or that a server takes."""


class CutsError(AudioContentError):
    """Cuts, or a part, a channel or a track, that a recording does not have, or that do not fit it."""


class DeviceError(SpecdecError):
    """A microphone that is not there, cannot be opened, or stops delivering sound."""


class DecodingError(SpecdecError):
    """The settings or a model make decoding impossible."""


class ContextError(DecodingError):
    """A prompt and a text that do not fit into a model's context together."""


class ScoresError(DecodingError):
    """Scores of a model that leave no token to choose: NaN, or all banned."""


class CloudError(SpecdecError):
    """A remote cloud that cannot be reached, refuses to answer, or answers nonsense."""

    about_clip = False  # whether the error concerns this clip alone, so that the next one may call the cloud


class EdgeError(SpecdecError):
    """A remote edge that cannot be reached, refuses to answer, or answers nonsense."""


class TranscriptError(SpecdecError):
    """A transcript that cannot be written or read, or a file that cannot be written."""


class WrongFileError(TranscriptError):
    """A file that a command cannot read or may not write; another one can be named instead."""

    status = 2


class UnexpectedError(SpecdecError):
    """An error that was not foreseen: memory ran out, or a bug. The original exception is its cause."""


def raise_if_any(problems: Iterable[ConfigError]) -> None:
    """Raises the first of `problems`, if there is one, with the messages of the others in its hint."""
    found = list({problem.message: problem for problem in problems}.values())
    if found[1:]:
        others = "\n".join(f"- {other.message}" for other in found[1 : _LISTED + 1])
        more = f"{found[0].message} ({len(found) - 1} more)"
        raise ConfigError(more, hint=f"{found[0].hint or ''}\nAlso:\n{others}".strip()) from found[0]
    if found:
        raise found[0]


def as_specdec_error(error: BaseException, log: logging.Logger | None = None) -> SpecdecError:
    """The error itself if it is a SpecdecError, else an `UnexpectedError` around it: it fails one clip, not all.

    `log`: where to write the traceback of such an error, at debug level.
    """
    if isinstance(error, SpecdecError):
        return error
    if log is not None:
        log.debug("unexpected error", exc_info=error)
    detail = " ".join(str(error).split())
    message = f"{type(error).__name__}: {detail}" if detail else type(error).__name__
    unexpected = UnexpectedError(message, hint=_advice(error, detail))
    unexpected.__cause__ = error
    return unexpected


def install(extra: str) -> str:
    """The command that installs an extra of specdec."""
    return f"pip install 'specdec-cli[{extra}]' (in a clone: pip install -e '.[{extra}]')"


def first_line(error: BaseException) -> str:
    """The first line of the error's message, or its class name if it has none."""
    text = str(error).strip().splitlines()
    return text[0].strip() if text else type(error).__name__


def _advice(error: BaseException, detail: str) -> str:
    if isinstance(error, MemoryError) or "out of memory" in detail.lower():
        return "Use shorter pieces with audio.segment, a 16-bit dtype or a smaller model, or close other programs."
    if isinstance(error, OSError):
        return "The machine refused it: check free space, permissions and the devices."
    return "This was not foreseen. Report it with its traceback, which --debug prints on the command line."
