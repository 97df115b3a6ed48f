"""What a command may write: nothing but new files and files that specdec wrote itself, and none that it reads."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError, TranscriptError, WrongFileError
from specdec_cli.regular_files import open_regular

STDOUT: Final = Path("-")
COLUMNS: Final = (
    "name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "error"
)  # fmt: skip

_EXPORTED: Final = (".textgrid", ".eaf", ".srt", ".vtt", ".rttm", ".csv", ".txt", ".tsv", ".xlsx")  # no transcripts
_OF_DISKS: Final = (None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
_HEAD: Final = 16_384  # bytes of a file that identify its kind


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that specdec writes."""

    name: str  # for messages, in the plural
    pattern: bytes  # what a file of this kind begins with, after blanks
    suffixes: tuple[str, ...] = ()  # what the file's name may end in; none: anything
    torn: tuple[bytes, ...] = ()  # beginnings of its lines, of which a killed run may have left half
    stdout: bool = False  # whether "-" means standard output; elsewhere that has the command's own text

    def ours(self, head: bytes) -> bool:
        """Whether the beginning of a file says that specdec wrote it as this kind."""
        return re.match(self.pattern, head, re.DOTALL) is not None or any(line.startswith(head) for line in self.torn)


_SCHEMA: Final = rb'\{\s*"schema"\s*:\s*1\s*[,}]'  # as another JSON library may write it
_LINE: Final = b'{"schema":1,"file":"'
_PAGE: Final = rb"(?i:<!doctype html>).*<title>specdec %s</title>"
_FORMAT: Final = rb'\{\s*"format"\s*:\s*"specdec %s"'

TRANSCRIPTS: Final = Kind("transcripts", _SCHEMA, torn=(_LINE,))
RECORDINGS: Final = Kind(
    "recordings of specdec tune", _SCHEMA + rb'|\{\s*"recording"\s*:\s*1\s*[,}]', torn=(_LINE, b'{"recording":1,')
)
TABLE: Final = Kind("tables of specdec batch", ",".join(COLUMNS[:8]).encode(), stdout=True)
PICTURE: Final = Kind("pictures of specdec", rb"(?:<svg|\x89PNG).*specdec", (".svg", ".png", ".pdf"))
PAGE: Final = Kind("pages of specdec", _PAGE % b"report", (".html",))
REVIEW: Final = Kind("review pages of specdec", _PAGE % b"review", (".html",))
CALIBRATION: Final = Kind("calibrations", _FORMAT % b"calibration", (".json",))
GATE: Final = Kind("gate files", _FORMAT % b"gate", (".json",))


def refuse(targets: Mapping[str, tuple[Path | None, Kind]], inputs: Iterable[str | Path | None]) -> None:
    """Refuses targets that cannot be written, or whose writing would destroy something; writes nothing.

    Args:
        targets: flag -> the file, None where the flag is not given, and what it will hold.
        inputs: files that the command reads: recordings, tables, configuration, gate, lexicon.

    Raises:
        ConfigError: a target is an input, or another target; it has the wrong ending.
        TranscriptError: a target holds something that specdec did not write, or cannot be written.
    """
    read = {_identity(given) for given in inputs if given is not None}
    taken: dict[object, str] = {}
    for flag, (target, kind) in targets.items():
        if target is None or (target == STDOUT and kind.stdout):
            continue
        ending, real = target.suffix.lower(), _identity(target)
        if target == STDOUT:
            raise ConfigError(f"{flag} takes a file, not -.", hint="Name a file; --json prints where a command has it.")
        if (other := taken.setdefault(real, flag)) != flag:
            raise ConfigError(f"{flag} and {other} are both {target}.", hint="Name two files.")
        if real in read:
            raise ConfigError(f"{flag} {target} is one of the recordings or other inputs.", hint="Name another file.")
        suffixes = (".jsonl",) if kind is TRANSCRIPTS and ending in _EXPORTED else kind.suffixes or (ending,)
        if ending not in suffixes:
            hint = f"Name it {target.stem}{suffixes[0]}; specdec export writes transcripts in other formats."
            raise ConfigError(f"{flag} {target} does not end in {' or '.join(suffixes)}.", hint=hint)
        require_ours(target, kind)


def require_ours(target: Path, kind: Kind) -> None:
    """Refuses a file that holds something else than `kind`, or cannot be written; an empty one is fine.

    Raises:
        TranscriptError: the reason.
    """
    head, written = b"", target
    with writing(target):
        try:
            with open_regular(target) as file:
                head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip(b"\0\r\n\t ")
        except FileNotFoundError:
            written = Path(os.path.realpath(target)).parent.resolve(strict=True)
        if not os.access(written, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
    if head and not kind.ours(head):
        message = f"{target} holds something else than {kind.name}; nothing was written to it."
        raise WrongFileError(message, hint="Name a new file, or one that specdec wrote.")


def write(target: Path, content: str | bytes | Iterable[str], kind: Kind) -> None:
    """Writes a file whole or not at all, in the place of one of the same kind; "-" is standard output.

    Raises:
        TranscriptError: it cannot be written, or holds something else by now.
    """
    if target == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_encoded(content))
        sys.stdout.buffer.flush()
    else:
        require_ours(target, kind)
        replace(target, content)


def replace(target: Path, content: str | bytes | Iterable[str | bytes], *, durable: bool = False) -> None:
    """Writes a file whole or not at all, in the place of whatever has that name; a link stays a link.

    `durable`: it is on the disk before it takes that place, for content that cannot be made again.

    Raises:
        TranscriptError: it cannot be written.
    """
    with writing(target):
        target = Path(os.path.realpath(target))
        draft = target.with_name(f".specdec-{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:  # follows no link that was planted in its place
                file.writelines(_encoded(content))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if target.exists():
                draft.chmod(target.stat().st_mode & 0o7777)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def _encoded(content: str | bytes | Iterable[str | bytes]) -> Iterator[bytes]:
    parts = [content] if isinstance(content, str | bytes) else content
    return (part.encode("utf-8") if isinstance(part, str) else part for part in parts)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses inside becomes a TranscriptError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        hint = "Check the folder, its permissions and the free space; what the file held is untouched."
        of_disk = isinstance(error, OSError) and error.errno in _OF_DISKS
        kind = TranscriptError if of_disk else WrongFileError
        raise kind(f"{path} cannot be written: {reason}.", hint=hint) from error


def _identity(path: str | Path) -> object:
    """Equal for two names of one file, also of one that does not exist."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except (OSError, ValueError):
        return real
    return status.st_dev, status.st_ino
